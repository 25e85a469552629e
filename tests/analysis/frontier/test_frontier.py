"""The frontier of a table of trials, and which of its trials to take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.frontier.frontier import Frontier, frontier, recommend
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, trial


def _frontier(out: Path) -> Frontier:
    return frontier(TrialTable.read(out), SweepFile.read(out).objectives)


def test_the_frontier_goes_from_the_best_first_to_the_best_second_objective(make_sweep: MakeSweep) -> None:
    front = _frontier(
        make_sweep([trial("0", 2.0, 1.0), trial("1", 6.0, 4.0), trial("2", 4.0, 2.0), trial("3", 4.0, 3.0)])
    )
    assert front.trial_ids == ("1", "2", "0")
    assert front.values.tolist() == [[6.0, 4.0], [4.0, 2.0], [2.0, 1.0]]
    assert front.costs.tolist() == [[0.25, 0.5], [0.5, 0.25], [0.75, 0.125]]
    assert front.hypervolume == pytest.approx(0.75 * 0.5 + 0.5 * 0.25 + 0.25 * 0.125)
    assert front.contributions.tolist() == pytest.approx([0.25 * 0.5, 0.25 * 0.25, 0.25 * 0.125])


@pytest.mark.parametrize("status", ["stopped", "diverged", "failed"])
def test_a_trial_that_did_not_finish_adds_nothing_however_good_it_looks(make_sweep: MakeSweep, status: str) -> None:
    front = _frontier(make_sweep([trial("0", 4.0, 4.0), trial("1", 8.0, 0.0, status=status)]))
    assert front.trial_ids == ("0",)
    assert front.hypervolume == pytest.approx(0.25)


@pytest.mark.parametrize("value", [None, "nan", "inf"])
def test_a_finished_trial_without_a_value_is_named_and_counts_for_nothing(make_sweep: MakeSweep, value: object) -> None:
    front = _frontier(make_sweep([trial("0", 4.0, 4.0), trial("1", 8.0, 0.0) | {"retain_loss": value}]))
    assert front.trial_ids == ("0",)
    assert front.unscored == ("1",)
    assert front.hypervolume == pytest.approx(0.25)


def test_trials_with_equal_objectives_all_stay_and_share_their_contribution(make_sweep: MakeSweep) -> None:
    rows = [trial("5", 4.0, 4.0), trial("2", 4.0, 4.0), trial("9", 6.0, 6.0)]
    front = _frontier(make_sweep(rows))
    assert front.trial_ids == ("9", "2", "5")
    assert front.hypervolume == pytest.approx(0.5 * 0.5 + 0.25 * 0.25)
    assert front.contributions.tolist() == pytest.approx([0.25 * 0.25, 0.125, 0.125 * 1.0])


def test_beyond_a_bound_only_the_better_trial_is_on_the_frontier_and_gains_no_volume(make_sweep: MakeSweep) -> None:
    front = _frontier(make_sweep([trial("0", 8.0, 20.0), trial("1", 8.0, 90.0), trial("2", 4.0, 4.0)]))
    assert front.trial_ids == ("0", "2")
    assert front.costs.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert front.hypervolume == pytest.approx(0.25)
    assert front.contributions.tolist() == pytest.approx([0.0, 0.25])


def test_the_uncapped_loss_buys_nothing(make_sweep: MakeSweep) -> None:
    front = _frontier(make_sweep([trial("0", 400.0, 4.0)]))
    assert front.values.tolist() == [[8.0, 4.0]]
    assert front.hypervolume == pytest.approx(0.5)


def test_without_finished_trials_the_frontier_is_empty(make_sweep: MakeSweep) -> None:
    front = _frontier(make_sweep([trial("0", 4.0, 4.0, status="diverged")]))
    assert (front.trial_ids, front.hypervolume, front.values.shape) == ((), 0.0, (0, 2))
    assert recommend(front) is None


def test_a_sweep_that_is_still_making_its_target_has_an_empty_frontier(make_sweep: MakeSweep) -> None:
    front = _frontier(make_sweep(None, objectives=None, random_guess_loss=None, baseline=None))
    assert (front.trial_ids, front.hypervolume, front.objectives) == ((), 0.0, ())


def test_three_objectives_have_a_frontier(make_sweep: MakeSweep) -> None:
    utility = {"name": "utility", "column": "utility", "direction": "max", "low": 0, "high": 1, "label": "utility"}
    rows = [trial("0", 4.0, 4.0, utility=0.5), trial("1", 4.0, 5.0, utility=0.75), trial("2", 4.0, 5.0, utility=0.5)]
    out = make_sweep(rows)
    objectives = SweepFile.read(out).objectives
    three = SweepFile.read(make_sweep(rows, name="three", objectives=[*_entries(out), utility]))
    assert frontier(TrialTable.read(out), objectives).trial_ids == ("0",)
    front = frontier(TrialTable.read(out), three.objectives)
    assert front.trial_ids == ("0", "1")
    assert front.hypervolume == pytest.approx(0.5 * (0.5 * 0.5 + 0.375 * 0.75 - 0.375 * 0.5))


def _entries(out: Path) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = json.loads((out / "sweep.json").read_text())["objectives"]
    return entries


def test_an_objective_that_the_table_lacks_is_named(make_sweep: MakeSweep) -> None:
    missing = {"name": "privleak", "direction": "min", "low": 0, "high": 1}
    out = make_sweep([trial("0", 1.0, 1.0)], objectives=[missing, missing | {"name": "utility"}])
    with pytest.raises(AnalysisError, match="no column privleak for the objective privleak"):
        _frontier(out)


def test_an_objective_in_words_is_refused(make_sweep: MakeSweep) -> None:
    wordy = {"name": "optimizer", "direction": "min", "low": 0, "high": 1}
    out = make_sweep([trial("0", 1.0, 1.0)], objectives=[wordy])
    with pytest.raises(AnalysisError, match="needs numbers in the column optimizer"):
        _frontier(out)


def test_the_knee_is_nearest_to_the_ideal_and_may_not_contribute_most(make_sweep: MakeSweep) -> None:
    """Costs (0, 0.75), (0.25, 0.25), (0.375, 0.125), (0.875, 0); a neighbour takes from the knee's contribution."""
    rows = [trial("0", 8.0, 6.0), trial("1", 6.0, 2.0), trial("2", 5.0, 1.0), trial("3", 1.0, 0.0)]
    front = _frontier(make_sweep(rows))
    found = recommend(front)
    assert found is not None
    assert front.trial_ids[found.nearest] == "1"
    assert found.distance == pytest.approx((0.25**2 + 0.25**2) ** 0.5)
    assert front.contributions.tolist() == pytest.approx([0.0625, 0.0625, 0.0625, 0.015625])
    crowded = _frontier(make_sweep([*rows, trial("4", 6.5, 2.5)], name="crowded"))
    other = recommend(crowded)
    assert other is not None
    assert crowded.trial_ids[other.nearest] == "1"
    assert crowded.trial_ids[other.largest] != "1"
