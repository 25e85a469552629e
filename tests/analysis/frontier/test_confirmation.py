"""Fresh runs are judged by the criterion of the answer. A run without a model does not meet it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from analysis.frontier.confirmation import Confirmed, confirmation_order
from analysis.report.report import write_report
from analysis.tables.sources import read_source
from tests.analysis.conftest import MakeSweep, Row, trial

GOOD = {"verbmem": 0.05, "utility": 0.79}
BAD = {"verbmem": 0.6, "utility": 0.79}


def fresh(number: int, of: str = "00001", epoch: float = 3.0, /, **fields: object) -> Row:
    """Return the row of a confirm trial of the trial ``of``; by default, a finished trial that forgot enough."""
    row = trial(f"confirm-00{number}", 3.0, 0.1, **{"seed": number + 1, "epochs_done": epoch, **GOOD, **fields})
    return {**row, "phase": "confirm", "confirms": of, "stop_epoch": epoch}


@pytest.fixture
def trials() -> list[Row]:
    return [trial("00000", 1.0, 0.06, **BAD), trial("00001", 4.0, 0.07, **GOOD)]


@pytest.mark.parametrize(
    ("changes", "met"),
    [
        ({}, 1),
        (BAD, 0),
        ({"status": "diverged", "error": "the retain loss is NaN"}, 0),
        ({"status": "failed", "verbmem": None, "utility": None}, 0),
    ],
)
def test_a_fresh_run_meets_the_criterion_or_not(
    make_sweep: MakeSweep, trials: list[Row], changes: Mapping[str, object], met: int
) -> None:
    out = make_sweep([*trials, fresh(0, **changes), fresh(1)])
    source = read_source(out)
    assert confirmation_order(source.table, source.sweep) == [Confirmed("00001", 3.0, runs=2, met=1 + met)]
    answer = write_report(out)["answer"]
    assert answer["confirmed"] == {"runs": 2, "met": 1 + met}


def test_fresh_runs_of_another_model_or_epoch_are_listed_but_do_not_confirm_the_answer(
    make_sweep: MakeSweep, trials: list[Row]
) -> None:
    out = make_sweep([*trials, fresh(0, "00000", **BAD), fresh(1, "00001", 2.0)])
    content = write_report(out)
    assert content["answer"]["confirmed"] is None
    assert content["fresh_runs"] == [
        {"trial_id": "00000", "epoch": 3.0, "runs": 1, "met": 0},
        {"trial_id": "00001", "epoch": 2.0, "runs": 1, "met": 1},
    ]


def test_a_report_with_fresh_runs_has_the_frontier_and_the_figures_of_the_search(
    make_sweep: MakeSweep, trials: list[Row]
) -> None:
    """The fresh run would dominate all trials."""
    before = write_report(make_sweep(trials))
    after = write_report(out := make_sweep([*trials, fresh(0, retain_loss=0.01, forget_loss_capped=7.9)], name="after"))
    for name in ("front", "hypervolume", "reference"):
        assert json.dumps(after[name]) == json.dumps(before[name])
    assert "confirm-000" not in (out / "report.html").read_text()


def test_only_the_given_model_is_confirmed(make_sweep: MakeSweep, trials: list[Row]) -> None:
    source = read_source(make_sweep(trials))
    assert confirmation_order(source.table, source.sweep, model=("00000", None)) == [Confirmed("00000", 3.0)]
    assert confirmation_order(source.table, source.sweep, model=("00000", 7.0)) == []
