"""A damaged event log is reported with its path, and damaged tables are rebuilt from the log.

Without a log, a sweep is resumed from its tables. A damaged table is reported with its path and not changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest

from sweeper.driver.open_sweep import OpenSweep
from sweeper.store.events import Kind
from sweeper.store.folder import SweepError, UsageError, begin, check_record
from sweeper.store.read_state import events_of_tables
from tests.facts import assert_names
from tests.sweeper.cli.conftest import invoke, problems_of
from tests.sweeper.conftest import SETTINGS, bare_sweep, report, running


@pytest.fixture
def resumable(golden: Path) -> Path:
    """The tables of the golden sweep with a sweep.json of the current format."""
    (golden / "sweep.json").unlink()
    begin(replace(SETTINGS, trials=200, tracking_uri="http://127.0.0.1:9"), golden)
    return golden


def write_log(out: Path) -> Path:
    """Write the event log that the tables record."""
    path = out / "events.jsonl"
    path.write_bytes(b"".join(event.to_line() for event in events_of_tables(out)))
    return path


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


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        *itertools.product(["trials.csv"], DAMAGES),
        *itertools.product(["history.csv", "auto_lr.csv"], ["binary", "other columns"]),
    ],
)
def test_without_a_log_a_damaged_table_is_named_and_left_as_it_is(resumable: Path, table: str, damage: str) -> None:
    path = resumable / table
    path.write_bytes(damaged := DAMAGES[damage](path.read_bytes() if path.is_file() else b""))
    for command in ("resume", *(["report"] if table == "trials.csv" else [])):
        (problem,) = problems_of(invoke(command, resumable))
        assert_names(problem, path)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("damage", [*DAMAGES, "deleted"])
def test_with_a_log_a_damaged_table_is_rebuilt(resumable: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(resumable)
    bare_sweep(resumable)
    before = {path: path.read_bytes() for path in resumable.glob("*.csv")}
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
    log = write_log(resumable)
    before = log.read_bytes()
    log.write_bytes(damaged := DAMAGES[damage](before))
    (problem,) = problems_of(invoke("resume", resumable, "--trials", "500"))
    pairs = zip(before.split(b"\n"), damaged.split(b"\n"), strict=False)
    assert_names(problem, log, f"line {next(n for n, (old, new) in enumerate(pairs, start=1) if old != new)} ")
    assert log.read_bytes() == damaged


@pytest.fixture
def sweep(tmp_path: Path) -> OpenSweep:
    """A sweep of trials with four epochs and a stopped trial. Every epoch, or every second epoch, is evaluated."""
    out, settings = tmp_path / "out", replace(SETTINGS, trials=4, tracking_uri="http://127.0.0.1:9")
    begin(settings, out)
    sweep = bare_sweep(out, settings)
    for every, status in ((1, "finished"), (2, "finished"), (1, "diverged")):
        trial_id = running(sweep)
        for step in range(1, 5):
            is_evaluated = step % every == 0 and (step < 4 or status == "finished")
            losses = dict.fromkeys(("forget_loss", "forget_loss_capped", "retain_loss"), 4.0 if step != 1 else None)
            report(sweep, trial_id, step, **losses, evaluated=is_evaluated and step > 1)
        sweep.log.state.trials[trial_id].settings = {**sweep.log.state.trials[trial_id].settings, "eval_every": every}
        sweep.controller.end_trial(trial_id, {"status": status, "steps": 4, "epochs_done": 4.0})
    trial_id = running(sweep)
    report(sweep, trial_id, 1, auto_lr=[{"step": 1, "eta": 1e-4}])
    sweep.log.record(Kind.TRIAL_PAUSED, trial_id)
    sweep.controller.end_stopped(trial_id)
    return sweep


@pytest.mark.parametrize("keep", [None, 0, 2, 9], ids=["deleted", "header", "cut", "whole"])
def test_without_a_log_all_tables_are_rebuilt_even_if_candidates_csv_has_lost_epochs(
    sweep: OpenSweep, keep: int | None
) -> None:
    path = sweep.out / "candidates.csv"
    if keep == 9:
        sweep.log.record(Kind.METRICS_MEASURED, "00000", {"step": 2, "metrics": {"verbmem": 0.5}})
    sweep.tables.rewrite(sweep.log.state)
    before = {path: path.read_bytes() for path in sweep.out.glob("*.csv")}
    path.write_bytes(b"".join(before[path].splitlines(keepends=True)[: (keep or 0) + 1]))
    if keep is None:
        path.unlink()
    sweep.log.path.unlink()
    check_record(sweep.out)
    write_log(sweep.out)
    bare_sweep(sweep.out)
    assert {path: path.read_bytes() for path in before} == before
    assert before[path].count(b"\n") == 1 + 3 + 2 + 2 + 1


def test_without_a_log_tables_with_other_columns_are_read_and_keep_their_values(sweep: OpenSweep) -> None:
    path = sweep.out / "trials.csv"
    sweep.tables.rewrite(sweep.log.state)
    old = pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns="ended_at").assign(padding="0.25")
    old.to_csv(path, index=False)
    sweep.log.path.unlink()
    check_record(sweep.out)
    write_log(sweep.out)
    bare_sweep(sweep.out)
    new = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert new[list(old)].equals(old)


def test_without_a_log_a_finished_trial_that_lost_epochs_is_refused(sweep: OpenSweep) -> None:
    path = sweep.out / "history.csv"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    sweep.log.path.unlink()
    with pytest.raises(UsageError) as caught:
        check_record(sweep.out)
    assert_names(caught.value, path, "00001")
