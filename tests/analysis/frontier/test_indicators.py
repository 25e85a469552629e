"""Non-dominated sets, hypervolumes and contributions against closed forms and independent computations."""

from __future__ import annotations

import itertools
from fractions import Fraction
from random import Random

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import AnalysisError
from analysis.frontier.frontier import contributions, hypervolume, nondominated

EIGHTHS = st.integers(0, 8).map(lambda k: k / 8)
"""Multiples of 1/8 are exact in floating point and make ties likely."""
Points = list[tuple[float, ...]]


def points(dimensions: int, *, most: int = 7) -> st.SearchStrategy[Points]:
    return st.lists(st.tuples(*[EIGHTHS] * dimensions), min_size=1, max_size=most)


def union_of_boxes(costs: Points) -> Fraction:
    """The volume between the points and (1, ..., 1), by inclusion and exclusion over all subsets, in fractions."""
    total = Fraction(0)
    for size in range(1, len(costs) + 1):
        for subset in itertools.combinations(costs, size):
            box = Fraction(1)
            for axis in zip(*subset, strict=True):
                box *= 1 - Fraction(max(axis))
            total += box if size % 2 else -box
    return total


def dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


@pytest.mark.parametrize(
    ("costs", "volume"),
    [
        ([(0.0, 0.0)], 1.0),
        ([(1.0, 1.0)], 0.0),
        ([(0.25, 0.5)], 0.75 * 0.5),
        ([(0.0, 1.0)], 0.0),
        ([(0.25, 0.5), (0.5, 0.25)], 0.75 * 0.5 + 0.5 * 0.25),
        ([(0.125, 0.75), (0.25, 0.5), (0.75, 0.125)], 0.875 * 0.25 + 0.75 * 0.25 + 0.25 * 0.375),
        ([(0.5, 0.5), (0.5, 0.5)], 0.25),
        ([(0.5, 0.5), (0.75, 0.75)], 0.25),
        ([(0.5, 0.5, 0.5)], 0.125),
    ],
)
def test_the_hypervolume_is_the_area_of_rectangles_drawn_by_hand(costs: Points, volume: float) -> None:
    assert hypervolume(costs) == pytest.approx(volume, abs=1e-15)


@given(st.sampled_from([2, 3]).flatmap(points))
def test_the_hypervolume_is_the_volume_of_a_union_of_boxes(costs: Points) -> None:
    assert hypervolume(costs) == pytest.approx(float(union_of_boxes(costs)), abs=1e-12)


@given(points(2), st.randoms(use_true_random=False))
def test_order_does_not_matter(costs: Points, random: Random) -> None:
    shuffled = list(costs)
    random.shuffle(shuffled)
    assert hypervolume(shuffled) == pytest.approx(hypervolume(costs), abs=1e-15)


@given(points(2), EIGHTHS, EIGHTHS)
def test_a_dominated_point_adds_nothing_and_another_never_takes_away(costs: Points, x: float, y: float) -> None:
    worse = (max(costs[0][0], x), max(costs[0][1], y))
    assert hypervolume([*costs, worse]) == pytest.approx(hypervolume(costs), abs=1e-15)
    assert hypervolume([*costs, (x, y)]) >= hypervolume(costs) - 1e-15


@given(points(2), st.integers(1, 8).map(lambda k: k / 8))
def test_halving_the_distance_to_the_worst_bound_scales_the_volume(costs: Points, factor: float) -> None:
    """One axis shrunk towards the reference by a factor shrinks the volume by that factor."""
    shrunk = [(1 - factor * (1 - x), y) for x, y in costs]
    assert hypervolume(shrunk) == pytest.approx(factor * hypervolume(costs), abs=1e-12)


@given(st.sampled_from([2, 3, 4]).flatmap(lambda m: points(m, most=30)))
def test_the_non_dominated_points_are_those_that_no_pair_comparison_rules_out(costs: Points) -> None:
    expected = [not any(dominates(other, point) for other in costs) for point in costs]
    assert nondominated(costs).tolist() == expected


def test_the_non_dominated_points_are_the_best_trials_of_optuna() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    generator = np.random.default_rng(0)
    values = generator.integers(0, 20, size=(60, 2)) / 20
    study = optuna.create_study(directions=["minimize", "minimize"])
    study.add_trials([optuna.trial.create_trial(values=row.tolist()) for row in values])
    assert sorted(np.flatnonzero(nondominated(values))) == sorted(trial.number for trial in study.best_trials)


@given(points(2))
def test_a_contribution_is_what_is_lost_without_the_point_and_its_equals(costs: Points) -> None:
    front = [point for point in costs if not any(dominates(other, point) for other in costs)]
    for point, contribution in zip(front, contributions(front), strict=True):
        without = [other for other in front if other != point]
        lost = union_of_boxes(front) - (union_of_boxes(without) if without else 0)
        assert contribution == pytest.approx(float(lost), abs=1e-12)


def test_no_points_dominate_nothing() -> None:
    nothing = np.empty((0, 2))
    assert hypervolume(nothing) == 0.0
    assert nondominated(nothing).tolist() == []
    assert contributions(nothing).tolist() == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("compute", [hypervolume, nondominated, contributions])
def test_what_cannot_be_ranked_is_refused(compute: object, bad: float) -> None:
    assert callable(compute)
    with pytest.raises(AnalysisError, match="missing or infinite"):
        compute([(0.5, 0.5), (0.25, bad)])


@pytest.mark.parametrize("outside", [-0.25, 1.25])
def test_a_cost_outside_its_bounds_is_refused(outside: float) -> None:
    with pytest.raises(AnalysisError, match=r"must lie in \[0, 1\]"):
        hypervolume([(0.5, outside)])
