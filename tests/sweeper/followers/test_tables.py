"""The tables of a sweep follow its events: rows are appended while trials run, and rewritten whenever rows change."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.driver.open_sweep import OpenSweep
from sweeper.store.events import MetricsMeasured, TrialRequeued
from sweeper.store.tables import CsvTable, ResultTables
from tests.sweeper.conftest import end_trial, epoch_report, report, run_trial, running


def column(table: CsvTable, name: str) -> list[str]:
    return [row[name] for row in table.read()]


def steps(table: CsvTable) -> list[tuple[str, str]]:
    return [(row["trial_id"], row["step"]) for row in table.read()]


def test_rows_are_appended_while_trials_run(sweep: OpenSweep, out: Path) -> None:
    tables = ResultTables(out)
    assert tables.trials.path.is_file()
    first, second = running(sweep), running(sweep)
    report(sweep, second, 2, reported_at=7.5, updates=({"step": 1, "eta": 1e-4, "eta_new": 2e-4, "clipped": True},))
    files = {log.path: (log.path.stat().st_ino, log.path.read_bytes()) for log in (tables.history, tables.candidates)}
    sweep.controller.report(first, epoch_report(3))
    assert steps(tables.history) == [(second, "2"), (first, "3")], "in the order of the reports"
    assert steps(tables.candidates) == [(second, "2")], "an epoch that was not evaluated is no candidate"
    assert (steps(tables.auto_lr), column(tables.auto_lr, "eta_new")) == ([(second, "1")], ["0.0002"])
    for path, (inode, content) in files.items():
        assert (path.stat().st_ino, path.read_bytes()[: len(content)]) == (inode, content), "not rewritten"
    end_trial(sweep, second)
    assert [(row["trial_id"], row["status"]) for row in tables.trials.read()] == [(second, "finished")]


def test_the_tables_are_rewritten_in_order_when_a_trial_runs_again(sweep: OpenSweep, out: Path) -> None:
    tables = ResultTables(out)
    first, second = running(sweep), running(sweep)
    for trial_id in (second, first):
        for step in (1, 2, 3):
            report(sweep, trial_id, step, updates=({"step": step},))
        end_trial(sweep, trial_id)
    sweep.log.record(TrialRequeued(first, 1))
    expected = [(first, "1"), *((second, str(step)) for step in (1, 2, 3))]
    assert [steps(log) for log in (tables.history, tables.auto_lr, tables.candidates)] == [expected] * 3
    assert column(tables.trials, "trial_id") == [second]


@pytest.mark.parametrize("name", ["history.csv", "trials.csv"])
def test_rows_wait_while_the_disk_refuses_a_table_and_are_written_once(sweep: OpenSweep, out: Path, name: str) -> None:
    tables = ResultTables(out)
    (out / "trials.csv").rename(out / "before.csv")
    (out / name).mkdir()  # any write to it fails
    run_trial(sweep, steps=1)
    assert not sweep.log.flush()
    assert len(sweep.log.records) == len((out / "events.jsonl").read_bytes().splitlines()), "the log has everything"
    (out / name).rmdir()
    if name == "trials.csv":
        (out / "before.csv").rename(out / "trials.csv")
    assert sweep.log.flush()
    run_trial(sweep, steps=1)
    assert steps(tables.history) == [("00000", "1"), ("00001", "1")]
    assert column(tables.trials, "trial_id") == ["00000", "00001"]


def test_metrics_measured_later_are_in_the_row_of_their_epoch_even_if_the_disk_refuses_it_at_first(
    sweep: OpenSweep, out: Path
) -> None:
    trial_id = run_trial(sweep)
    sweep.log.record(MetricsMeasured(trial_id, 1, {"verbmem": 0.5}))
    (out / "candidates.csv").unlink()
    (out / "candidates.csv").mkdir()
    sweep.log.record(MetricsMeasured(trial_id, 1, {"utility": 0.25}))
    (out / "candidates.csv").rmdir()
    run_trial(sweep)
    candidates = ResultTables(out).candidates
    assert (column(candidates, "verbmem"), column(candidates, "utility")) == (["0.5"] + [""] * 3, ["0.25"] + [""] * 3)
