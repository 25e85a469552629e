"""A damaged or missing event log is reported with its path, and damaged tables are rebuilt from the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeper.store.events import MetricsMeasured
from sweeper.store.folder import SweepError, begin
from tests.facts import assert_names
from tests.sweeper.cli.conftest import invoke, problems_of
from tests.sweeper.conftest import SETTINGS, bare_sweep, end_trial, outcome, report, running

LOSSES = {"forget_loss": 4.0, "forget_loss_capped": 4.0, "retain_loss": 1.0}


@pytest.fixture
def resumable(tmp_path: Path) -> Path:
    """The folder of a sweep with three ended trials of two epochs. A metric of the first trial was measured later."""
    out, settings = tmp_path / "out", replace(SETTINGS, trials=200, tracking_uri="http://127.0.0.1:9")
    begin(settings, out)
    sweep = bare_sweep(out, settings)
    for status in ("finished", "diverged", "finished"):
        trial_id = running(sweep)
        for step in (1, 2):
            report(sweep, trial_id, step, **LOSSES, updates=({"step": step, "eta": 1e-4},))
        end_trial(sweep, trial_id, outcome(status, **LOSSES, steps=2, epochs_done=2.0))
    sweep.log.record(MetricsMeasured("00000", 2, {"verbmem": 0.5}))
    return out


def open_a_quote(content: bytes) -> bytes:
    first, second, rest = content.split(b"\n", 2)
    head, tail = second.split(b",", 1)
    return b"\n".join((first, head + b',"' + tail, rest))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a quote opened": open_a_quote,
    "binary": lambda content: bytes(range(256)) * 8,
    "zeroed": lambda content: content[:1500] + bytes(500) + content[2000:],
    "a line cut in the middle": lambda content: content.replace(b",", b"", 3),
    "other columns": lambda content: b"a,b\n1,2\n",
}


@pytest.mark.parametrize("damage", [*DAMAGES, "deleted"])
def test_a_damaged_table_is_rebuilt(resumable: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_sweep(resumable)
    before = {path: path.read_bytes() for path in resumable.glob("*.csv")}
    assert len(before) == 4
    for path, content in before.items():
        if damage == "deleted":
            path.unlink()
        else:
            path.write_bytes(DAMAGES[damage](content))
    monkeypatch.setattr("sweeper.sweep.run", Mock(side_effect=SweepError("the command is accepted")))
    assert_names(invoke("resume", resumable).stderr, "the command is accepted")
    bare_sweep(resumable)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_named_by_report_and_left_as_it_is(golden: Path, damage: str) -> None:
    path = golden / "trials.csv"
    path.write_bytes(damaged := DAMAGES[damage](path.read_bytes()))
    (problem,) = problems_of(invoke("report", golden))
    assert_names(problem, path)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_refused_with_its_line(resumable: Path, damage: str) -> None:
    log = resumable / "events.jsonl"
    before = log.read_bytes()
    log.write_bytes(damaged := DAMAGES[damage](before))
    (problem,) = problems_of(invoke("resume", resumable, "--trials", "500"))
    pairs = zip(before.split(b"\n"), damaged.split(b"\n"), strict=False)
    assert_names(problem, log, f"line {next(n for n, (old, new) in enumerate(pairs, start=1) if old != new)} ")
    assert log.read_bytes() == damaged


def test_without_its_log_a_sweep_is_read_and_not_resumed(resumable: Path, tmp_path: Path) -> None:
    (resumable / "events.jsonl").unlink()
    new = ("pareto", "--out", tmp_path / "new", "--tracking-uri", "http://127.0.0.1:9")
    for command in (
        ("resume", resumable),
        ("status", resumable),
        (*new, "--reuse", resumable),
        (*new, "--warm-start", resumable),
    ):
        (problem,) = problems_of(invoke(*command))
        assert_names(problem, resumable / "events.jsonl", "report")
    assert invoke("report", resumable).exit_code == 0
    assert not (resumable / "events.jsonl").exists()
