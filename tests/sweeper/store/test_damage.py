"""A damaged or lost event log is reported with its path and not changed. Damaged tables are rebuilt from the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeper.store.folder import SweepError, begin
from tests.facts import assert_names
from tests.sweeper.cli.conftest import invoke, problems_of
from tests.sweeper.conftest import SETTINGS, bare_sweep, run_trial


@pytest.fixture
def resumable(tmp_path: Path) -> Path:
    """The folder of a sweep with three ended trials of two epochs."""
    out = tmp_path / "out"
    begin(replace(SETTINGS, trials=200, tracking_uri="http://127.0.0.1:9"), out)
    sweep = bare_sweep(out)
    for _ in range(3):
        run_trial(sweep)
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
}


@pytest.mark.parametrize("damage", [*DAMAGES, "deleted"])
def test_a_damaged_table_is_rebuilt(resumable: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in resumable.glob("*.csv")}
    assert before
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
def test_a_damaged_log_is_refused_with_its_line(resumable: Path, damage: str) -> None:
    log = resumable / "events.jsonl"
    before = log.read_bytes()
    log.write_bytes(damaged := DAMAGES[damage](before))
    (problem,) = problems_of(invoke("resume", resumable, "--trials", "500"))
    pairs = zip(before.split(b"\n"), damaged.split(b"\n"), strict=False)
    assert_names(problem, log, f"line {next(n for n, (old, new) in enumerate(pairs, start=1) if old != new)} ")
    assert log.read_bytes() == damaged


def test_a_lost_log_is_refused_and_the_tables_are_kept(resumable: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in resumable.glob("*.csv")}
    log = resumable / "events.jsonl"
    log.unlink()
    for command in (("resume", resumable), ("status", resumable), ("pareto", "--reuse", resumable, "--dry-run")):
        (problem,) = problems_of(invoke(*command))
        assert_names(problem, log)
    assert {path: path.read_bytes() for path in before} == before
