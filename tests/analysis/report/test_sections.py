"""The sections of a report on the trials, the failures and the cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analysis.report.outcomes import EarlyStops, cost, early_stops, ended_as, failures
from analysis.report.render import say
from analysis.report.trials import page_data, trials_section
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, report, tables_of, trial


def test_the_table_has_columns_for_what_differs_and_says_once_what_does_not(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 6.0, 4.0), trial("1", 7.0, None, lr=1e-5, status="failed")])
    table, sweep = tables_of(out)
    section = trials_section(table, sweep.objectives, ())
    names = [name for name, _, _ in section["headings"]]
    assert {"trial_id", "status", "on_front", "method", "lr", "forget_loss", "retain_loss"} <= set(names)
    assert not {"seed", "c", "verbmem"} & set(names)
    assert {"seed": 0, "model": "tiny-phi", "epochs": 3}.items() <= section["same"].items()
    assert (section["rows"][1]["lr"], section["rows"][1]["retain_loss"]) == (1e-5, None)


def test_the_course_of_a_long_trial_is_thinned_and_keeps_its_ends(make_sweep: MakeSweep) -> None:
    reports = [report("0", step, step / 1000, 0.1) for step in range(1, 1001)]
    data: Any = page_data(TrialTable.read(make_sweep([trial("0", 1.0, 0.1), trial("1", 1.0, 0.1)], reports)))
    steps = data["0"]["course"]["step"]
    assert (len(steps), steps[0], steps[-1]) == (300, 1, 1000)
    assert data["0"]["course"]["forget_loss"][-1] == 1.0
    assert data["1"]["course"] == {}


def test_failures_with_one_reason_are_one_line_even_if_numbers_in_it_differ(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 1.0, 1.0),
        trial("1", None, None, status="failed", error="out of memory"),
        trial("2", None, None, status="diverged", error="nan at step 12"),
        trial("3", None, None, status="diverged", error="nan at step 40", method="ga"),
        trial("4", None, None, status="stopped"),
    ]
    table = TrialTable.read(make_sweep(rows))
    assert ended_as(table) == {"finished": 1, "stopped": 1, "diverged": 2, "failed": 1}
    found = failures(table)
    assert [(item.status, item.reason, item.varied, item.trial_ids, item.methods) for item in found] == [
        ("diverged", "nan at step 12", True, ("2", "3"), ("ga", "ngdiff")),
        ("failed", "out of memory", False, ("1",), ("ngdiff",)),
    ]


def test_early_stops_are_counted_by_epoch_with_the_epochs_saved(make_sweep: MakeSweep) -> None:
    stopped = [trial(n, 1.0, 1.0, status="stopped", epochs=9, epochs_done=e) for n, e in (("1", 1), ("2", 3), ("3", 1))]
    rows = [trial("0", 1.0, 1.0, epochs=9, epochs_done=9), *stopped]
    found = early_stops(TrialTable.read(make_sweep(rows)))
    assert found == EarlyStops(stopped=3, trials=4, after=((1.0, 2), (3.0, 1)), saved=22.0, planned=36.0)
    assert "22 of 36 epochs" in say("page.early_stops", stops=found)
    assert early_stops(TrialTable.read(make_sweep([trial("0", 1.0, 1.0, status="diverged")], name="none"))) is None


def test_the_cost_splits_the_time_that_trials_held_their_workers(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 1.0, 1.0, train_seconds=50, eval_seconds=20, wall_seconds=80),
        trial("1", 1.0, 1.0, train_seconds=10, eval_seconds=5, wall_seconds=None, status="diverged", method="ga"),
        trial("2", None, None, train_seconds=None, eval_seconds=None, wall_seconds=5, status="failed"),
    ]
    table = TrialTable.read(make_sweep(rows))
    found = cost(table)
    assert found.seconds == 100
    assert [line.name for line in found.groups["part"]] == ["training", "evaluation", "loading, saving, waiting"]
    assert [line.share for line in found.groups["part"]] == pytest.approx([0.60, 0.25, 0.15])
    statuses = [("finished", 1, 80), ("diverged", 1, 15), ("failed", 1, 5)]
    assert [(line.name, line.trials, line.seconds) for line in found.groups["status"]] == statuses
    assert [(line.name, line.mean) for line in found.groups["method"]] == [("ga", 15), ("ngdiff", 42.5)]
    assert found.lost.seconds == 20
    with_answers = cost(replace(table, trials=table.trials.assign(generation_seconds=[15, 0, None])))
    assert [(line.name, line.seconds) for line in with_answers.groups["part"]][1:3] == [
        ("losses and metrics", 10),
        ("generation of answers", 15),
    ]


def test_the_start_of_a_worker_is_no_cost_of_the_method_that_comes_first(make_sweep: MakeSweep) -> None:
    def ran(name: str, method: str, worker: str, *, start: float, waited: float) -> dict[str, object]:
        times = {"train_seconds": 8, "eval_seconds": 2, "wall_seconds": 10 + waited, "worker": worker}
        return trial(name, 1.0, 1.0, method=method, started_at=start, first_step_at=start + waited, **times)

    rows = [
        ran("0", "gdiff", "a:1", start=100, waited=30),
        ran("1", "ngdiff", "a:1", start=140, waited=1),
        ran("2", "gdiff", "b:2", start=100, waited=20),
    ]
    found = cost(TrialTable.read(make_sweep(rows)))
    assert (found.seconds, found.starts) == (81, 50)
    assert [(line.name, line.mean) for line in found.groups["method"]] == [("gdiff", 10), ("ngdiff", 11)]
    assert sum(line.share for line in found.groups["method"]) == pytest.approx(1.0)
