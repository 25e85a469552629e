"""Frontiers, hypervolumes, indicators and attainment against closed forms and independent computations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna._hypervolume import compute_hypervolume

from analysis.errors import AnalysisError
from analysis.figures.compute import anytime_data
from analysis.frontier.frontier import Frontier, contributions, frontier, hypervolume
from analysis.frontier.indicators import (
    additive_epsilon,
    attainment_difference,
    attainment_surfaces,
    igd_plus,
    indicators,
    pooled_front,
)
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.common.front import nondominated
from tests.analysis.conftest import MakeSweep, Row, tables_of, trial


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


@pytest.mark.parametrize("name", ["nowhere", "optimizer"], ids=["a missing column", "a column of words"])
def test_an_objective_without_a_column_of_numbers_is_named(make_sweep: MakeSweep, name: str) -> None:
    out = make_sweep([trial("0", 1.0, 1.0)], objectives=[{"name": name, "direction": "min", "low": 0, "high": 1}])
    with pytest.raises(AnalysisError, match=f"column {name}"):
        _frontier(out)


EIGHTHS = st.integers(0, 8).map(lambda k: k / 8)
"""Multiples of 1/8 are exact in floating point and make ties likely."""
Points = list[tuple[float, ...]]


def points(dimensions: int = 2, *, most: int = 6) -> st.SearchStrategy[Points]:
    return st.lists(st.tuples(*[EIGHTHS] * dimensions), min_size=1, max_size=most)


RUNS = st.lists(st.just([]) | points(most=4), min_size=1, max_size=3)


def union_of_boxes(costs: Points) -> Fraction:
    """The volume between the points and (1, ..., 1), by inclusion and exclusion over all subsets, in fractions."""
    total = Fraction(0)
    for size in range(1, len(costs) + 1):
        for subset in itertools.combinations(costs, size):
            box = math.prod(1 - Fraction(max(axis)) for axis in zip(*subset, strict=True))
            total += box if size % 2 else -box
    return total


def dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


@given(st.sampled_from([2, 3]).flatmap(points))
def test_the_hypervolume_is_the_volume_of_a_union_of_boxes_and_optunas(costs: Points) -> None:
    assert hypervolume(costs) == pytest.approx(float(union_of_boxes(costs)), abs=1e-12)
    assert hypervolume(costs) == pytest.approx(compute_hypervolume(np.array(costs), np.ones(len(costs[0]))), abs=1e-12)


@given(st.sampled_from([2, 3, 4]).flatmap(lambda m: points(m, most=30)))
def test_the_non_dominated_points_are_those_that_no_pair_comparison_rules_out(costs: Points) -> None:
    expected = [not any(dominates(other, point) for other in costs) for point in costs]
    assert nondominated(costs).tolist() == expected


@given(points())
def test_a_contribution_is_what_is_lost_without_the_point_and_its_equals(costs: Points) -> None:
    front = [point for point in costs if not any(dominates(other, point) for other in costs)]
    for point, contribution in zip(front, contributions(front), strict=True):
        lost = union_of_boxes(front) - union_of_boxes([other for other in front if other != point])
        assert contribution == pytest.approx(float(lost), abs=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.25, 1.25])
def test_costs_that_moocore_would_ignore_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        hypervolume([(0.5, 0.5), (0.25, bad)])


@given(points(), points())
def test_epsilon_and_igd_plus_are_their_definitions(costs: Points, reference: Points) -> None:
    gaps = [[(a[0] - z[0], a[1] - z[1]) for a in costs] for z in reference]
    epsilon = max(min(map(max, row)) for row in gaps)
    ahead = [min(math.hypot(max(x, 0), max(y, 0)) for x, y in row) for row in gaps]
    assert additive_epsilon(costs, reference) == pytest.approx(epsilon, abs=1e-12)
    assert igd_plus(costs, reference) == pytest.approx(sum(ahead) / len(ahead), abs=1e-12)


def test_the_pooled_front_is_at_no_distance_from_itself_and_every_other_set_is_behind() -> None:
    sets = {"a": [(0.25, 0.75), (0.5, 0.5)], "b": [(0.25, 0.75), (0.75, 0.25)], "none": np.empty((0, 2))}
    assert pooled_front(list(sets.values())).tolist() == [[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]
    found = indicators(sets)
    # From (0.75, 0.25) the nearest of a, (0.5, 0.5), is 0.25 behind in one axis; a contains the other two points.
    assert (found["a"].epsilon, found["a"].igd_plus) == pytest.approx((0.25, 0.25 / 3))
    assert (found["none"].hypervolume, found["none"].epsilon, found["none"].igd_plus) == (0.0, None, None)


def attained(runs: Sequence[Points], place: tuple[float, ...]) -> int:
    return sum(any(x <= place[0] and y <= place[1] for x, y in run) for run in runs)


@given(RUNS)
def test_a_place_is_behind_the_kth_surface_exactly_if_k_runs_attain_it(runs: list[Points]) -> None:
    """A run without points attains nothing but counts."""
    surfaces = attainment_surfaces(runs)
    assert len(surfaces) == len(runs)
    for place in itertools.product([k / 8 for k in range(9)], repeat=2):
        behind = [bool((corners <= place).all(axis=1).any()) for corners in surfaces]
        assert behind == [attained(runs, place) > k for k in range(len(runs))]


@given(RUNS, RUNS)
def test_the_difference_of_two_groups_is_that_of_their_shares_everywhere(one: list[Points], two: list[Points]) -> None:
    boxes = attainment_difference(one, two)
    for place in itertools.product([(2 * k + 1) / 16 for k in range(8)], repeat=2):
        expected = attained(one, place) / len(one) - attained(two, place) / len(two)
        inside = [box[4] for box in boxes if box[0] < place[0] < box[2] and box[1] < place[1] < box[3]]
        assert len(inside) <= 1
        assert sum(inside) == pytest.approx(expected)


def anytime(out: Path, **columns: object) -> tuple[list[float], list[float]]:
    """The seconds and hypervolumes of the anytime curve, with columns replaced in the table."""
    table, sweep = tables_of(out)
    seconds, volumes = anytime_data(table.with_trials(table.trials.assign(**columns)), sweep.objectives)
    return seconds.tolist(), volumes.tolist()


def test_the_anytime_curve_charges_every_trial_and_credits_only_finished_ones(make_sweep: MakeSweep) -> None:
    rows = [
        # The start of the first worker is not work of the trial.
        trial("00000", 4.0, 4.0, wall_seconds=90.0, train_seconds=6.0, eval_seconds=4.0),
        trial("00001", None, None, status="diverged", wall_seconds=5.0, train_seconds=None),
        trial("00002", 4.0, 4.0, wall_seconds=9.0, train_seconds=1.0, eval_seconds=None),
        trial("00003", 8.0, 4.0, wall_seconds=None, train_seconds=3.0, eval_seconds=1.0),
        trial("00004", None, None, status="failed", wall_seconds=None, train_seconds=None, eval_seconds=None),
    ]
    # Bounds 0 and 8: (4, 4) dominates half by half.
    assert anytime(make_sweep(rows)) == ([10.0, 15.0, 16.0, 20.0, 20.0], [0.25, 0.25, 0.25, 0.5, 0.5])
    assert anytime(make_sweep(None, name="none")) == ([], [])


def test_a_reused_trial_costs_nothing(make_sweep: MakeSweep) -> None:
    rows = [trial(f"{number:05d}", 4.0, 4.0, train_seconds=6.0, eval_seconds=4.0) for number in range(3)]
    assert anytime(make_sweep(rows), reused_from=[None, "here/00000", ""])[0] == [10.0, 10.0, 20.0]
