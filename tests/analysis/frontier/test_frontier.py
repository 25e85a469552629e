"""The frontier of a table of trials, and the knee."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.frontier.frontier import Frontier, frontier
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import OBJECTIVES, MakeSweep, Row, trial


def _frontier(out: Path) -> Frontier:
    return frontier(TrialTable.read(out), SweepFile.read(out).objectives)


NO_VALUE = (None, "nan", "inf")
IN_ORDER = [trial("0", 2.0, 1.0), trial("1", 6.0, 4.0), trial("2", 4.0, 2.0), trial("3", 4.0, 3.0)]
EQUAL = [trial("5", 4.0, 4.0), trial("2", 4.0, 4.0), trial("9", 6.0, 6.0)]
BEYOND = [trial("0", 8.0, 20.0), trial("1", 8.0, 90.0), trial("2", 4.0, 4.0)]


@pytest.mark.parametrize(
    ("rows", "ids", "costs", "contributions"),
    [
        (IN_ORDER, ("1", "2", "0"), [[0.25, 0.5], [0.5, 0.25], [0.75, 0.125]], [0.25 / 2, 0.25 / 4, 0.25 / 8]),
        (EQUAL, ("9", "2", "5"), [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]], [0.25 * 0.25, 0.125, 0.125]),
        (BEYOND, ("0", "2"), [[0.0, 1.0], [0.5, 0.5]], [0.0, 0.25]),
        ([trial("0", 400.0, 4.0)], ("0",), [[0.0, 0.5]], [0.5]),
        # However good it looks, a trial counts only if it finished with a finite value of every objective.
        *(
            ([trial("0", 4.0, 4.0), trial("1", 8.0, 0.0) | fields], ("0",), [[0.5, 0.5]], [0.25])
            for fields in (
                *({"status": status} for status in ("stopped", "diverged", "failed")),
                *({"retain_loss": value} for value in NO_VALUE),
            )
        ),
        ([trial("0", 4.0, 4.0, status="diverged")], (), [], []),
    ],
)
def test_the_frontier_goes_from_the_best_first_to_the_best_second_objective(
    make_sweep: MakeSweep, rows: list[Row], ids: tuple[str, ...], costs: list[list[float]], contributions: list[float]
) -> None:
    """Equal trials are all members, with the same contribution. A value beyond a bound has the cost of the bound."""
    front = _frontier(make_sweep(rows))
    assert front.trial_ids == ids
    assert front.costs.tolist() == costs
    assert front.contributions.tolist() == pytest.approx(contributions)
    heights = [1 - cost for _, cost in [(0, 1.0), *costs]]
    steps = [(1 - x) * (high - low) for (x, _), low, high in zip(costs, heights, heights[1:], strict=False)]
    assert front.hypervolume == pytest.approx(sum(steps))
    unscored = tuple(row["trial_id"] for row in rows if row["status"] == "finished" and row["retain_loss"] in NO_VALUE)
    assert front.unscored == unscored


def test_before_the_target_exists_the_frontier_is_empty(make_sweep: MakeSweep) -> None:
    front = _frontier(make_sweep(None, objectives=None, random_guess_loss=None, baseline=None))
    assert (front.trial_ids, front.hypervolume, front.objectives) == ((), 0.0, ())


def test_three_objectives_have_a_frontier(make_sweep: MakeSweep) -> None:
    utility = {"name": "utility", "column": "utility", "direction": "max", "low": 0, "high": 1, "label": "utility"}
    rows = [trial("0", 4.0, 4.0, utility=0.5), trial("1", 4.0, 5.0, utility=0.75), trial("2", 4.0, 5.0, utility=0.5)]
    front = _frontier(make_sweep(rows, objectives=[*OBJECTIVES, utility]))
    assert front.trial_ids == ("0", "1")
    assert front.hypervolume == pytest.approx(0.5 * (0.5 * 0.5 + 0.375 * 0.75 - 0.375 * 0.5))


@pytest.mark.parametrize("name", ["privleak", "optimizer"], ids=["a missing column", "a column of words"])
def test_an_objective_without_a_column_of_numbers_is_named(make_sweep: MakeSweep, name: str) -> None:
    out = make_sweep([trial("0", 1.0, 1.0)], objectives=[{"name": name, "direction": "min", "low": 0, "high": 1}])
    with pytest.raises(AnalysisError, match=f"column {name}"):
        _frontier(out)


def test_the_knee_is_nearest_to_the_ideal_and_may_not_contribute_most(make_sweep: MakeSweep) -> None:
    """The knee has the costs (0.25, 0.25), and a neighbour makes its contribution small."""
    rows = [trial("0", 8.0, 6.0), trial("1", 6.0, 2.0), trial("2", 5.0, 1.0), trial("3", 1.0, 0.0)]
    front = _frontier(make_sweep([*rows, trial("4", 6.5, 2.5)]))
    knee = front.distances.argmin()
    assert (front.trial_ids[knee], front.distances[knee]) == ("1", pytest.approx(2**0.5 / 4))
    assert front.trial_ids[front.contributions.argmax()] != "1"
