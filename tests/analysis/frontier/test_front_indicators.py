"""IGD+, epsilon, attainment, the anytime curve and the reference point's influence, against closed forms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna._hypervolume import compute_hypervolume

from analysis.errors import AnalysisError
from analysis.frontier.anytime import anytime_data
from analysis.frontier.attainment import attainment_difference, attainment_surfaces
from analysis.frontier.frontier import hypervolume
from analysis.frontier.indicators import additive_epsilon, igd_plus, indicators, pooled_front, reference_sensitivity
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, trial

optuna.logging.set_verbosity(optuna.logging.WARNING)
EIGHTHS = st.integers(0, 8).map(lambda k: k / 8)
POINTS = st.lists(st.tuples(EIGHTHS, EIGHTHS), min_size=1, max_size=6)
Points = list[tuple[float, float]]


@given(POINTS)
def test_the_hypervolume_is_optunas(costs: Points) -> None:
    expected = compute_hypervolume(np.array(costs), np.ones(2))
    assert hypervolume(costs) == pytest.approx(expected, abs=1e-12)


@given(POINTS, POINTS)
def test_epsilon_and_igd_plus_are_their_definitions(costs: Points, reference: Points) -> None:
    def gaps(z: tuple[float, float]) -> list[tuple[float, float]]:
        return [(a[0] - z[0], a[1] - z[1]) for a in costs]

    epsilon = max(min(max(gap) for gap in gaps(z)) for z in reference)
    ahead = [min(math.hypot(max(x, 0), max(y, 0)) for x, y in gaps(z)) for z in reference]
    assert additive_epsilon(costs, reference) == pytest.approx(epsilon, abs=1e-12)
    assert igd_plus(costs, reference) == pytest.approx(sum(ahead) / len(ahead), abs=1e-12)


def test_the_pooled_front_is_at_no_distance_from_itself_and_every_other_set_is_behind() -> None:
    sets = {"a": [(0.25, 0.75), (0.5, 0.5)], "b": [(0.25, 0.75), (0.75, 0.25)], "none": np.empty((0, 2))}
    assert pooled_front(list(sets.values())).tolist() == [[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]
    found = indicators(sets)
    # From (0.75, 0.25) the nearest of a, (0.5, 0.5), is 0.25 behind in one axis; the other two it has.
    assert found["a"].epsilon == pytest.approx(0.25)
    assert found["a"].igd_plus == pytest.approx(0.25 / 3)
    assert found["none"].hypervolume == 0.0
    assert found["none"].epsilon is None
    assert found["none"].igd_plus is None


@pytest.mark.parametrize("compute", [igd_plus, additive_epsilon])
def test_a_missing_value_is_refused_and_never_passed_over(compute: object) -> None:
    assert callable(compute)
    with pytest.raises(AnalysisError, match="missing or infinite"):
        compute([(0.5, math.nan)], [(0.5, 0.5)])
    with pytest.raises(AnalysisError, match="at least one point"):
        compute(np.empty((0, 2)), [(0.5, 0.5)])
    with pytest.raises(AnalysisError, match="missing or infinite"):
        attainment_surfaces([[(0.5, math.nan)]])


def test_the_sensitivity_row_says_when_the_order_of_two_sets_hangs_on_the_reference_point() -> None:
    corner, edge = [(0.4, 0.4)], [(0.0, 0.95), (0.95, 0.0)]
    row = reference_sensitivity({"corner": corner, "edge": edge}, references=(1.0, 0.5))
    assert row.hypervolumes == pytest.approx(np.array([[0.36, 0.04], [0.0975, 0.0]]), abs=1e-12)
    assert row.stable
    # 0.4 > 0.36 by the worst corner; from (0.5, 0.5) the second is out of the box.
    flipped = reference_sensitivity({"corner": corner, "side": [(0.0, 0.6)]}, references=(1.0, 0.5))
    assert flipped.hypervolumes == pytest.approx(np.array([[0.36, 0.04], [0.4, 0.0]]), abs=1e-12)
    assert not flipped.stable


def attained(runs: Sequence[Points], place: tuple[float, float]) -> int:
    return sum(any(x <= place[0] and y <= place[1] for x, y in run) for run in runs)


@given(st.lists(st.lists(st.tuples(EIGHTHS, EIGHTHS), max_size=4), min_size=1, max_size=4))
def test_a_place_is_behind_the_kth_surface_exactly_if_k_runs_attain_it(runs: list[Points]) -> None:
    surfaces = attainment_surfaces(runs)
    assert [surface.runs for surface in surfaces] == list(range(1, len(runs) + 1))
    for place in itertools.product([k / 8 for k in range(9)], repeat=2):
        count = attained(runs, place)
        for surface in surfaces:
            behind = bool(len(surface.points)) and bool((surface.points <= place).all(axis=1).any())
            assert behind == (count >= surface.runs)


def test_a_run_that_diverged_attains_nothing_but_counts() -> None:
    runs: list[Points] = [[(0.25, 0.25)], [], []]
    surfaces = attainment_surfaces(runs)
    assert [(surface.runs, surface.of) for surface in surfaces] == [(1, 3), (2, 3), (3, 3)]
    assert [len(surface.points) for surface in surfaces] == [1, 0, 0]


@given(
    st.lists(st.lists(st.tuples(EIGHTHS, EIGHTHS), max_size=3), min_size=1, max_size=3),
    st.lists(st.lists(st.tuples(EIGHTHS, EIGHTHS), max_size=3), min_size=1, max_size=3),
)
def test_the_difference_of_two_groups_is_that_of_their_shares_everywhere(one: list[Points], two: list[Points]) -> None:
    found = attainment_difference(one, two)
    for place in itertools.product([(2 * k + 1) / 16 for k in range(8)], repeat=2):
        expected = attained(one, place) / len(one) - attained(two, place) / len(two)
        inside = [
            difference
            for (left, bottom, right, top), difference in zip(found.boxes, found.differences, strict=True)
            if left < place[0] < right and bottom < place[1] < top
        ]
        assert len(inside) <= 1
        assert sum(inside) == pytest.approx(expected)


def test_the_anytime_curve_charges_every_trial_and_credits_only_finished_ones(make_sweep: MakeSweep) -> None:
    out = make_sweep(
        [
            # What starting the first worker took is none of the trial's work.
            trial("00000", 4.0, 4.0, wall_seconds=90.0, train_seconds=6.0, eval_seconds=4.0),
            trial("00001", None, None, status="diverged", wall_seconds=5.0, train_seconds=None),
            trial("00002", 4.0, 4.0, wall_seconds=9.0, train_seconds=1.0, eval_seconds=None),
            trial("00003", 8.0, 4.0, wall_seconds=None, train_seconds=3.0, eval_seconds=1.0),
            trial("00004", None, None, status="failed", wall_seconds=None, train_seconds=None, eval_seconds=None),
        ]
    )
    curve = anytime_data(TrialTable.read(out), SweepFile.read(out).objectives)
    assert curve.seconds.tolist() == [10.0, 15.0, 16.0, 20.0, 20.0]
    # Bounds 0 and 8: (4, 4) dominates half by half.
    assert curve.hypervolume.tolist() == [0.25, 0.25, 0.25, 0.5, 0.5]


def test_a_point_that_was_run_before_costs_nothing_and_a_trial_of_another_sweep_what_it_cost(
    make_sweep: MakeSweep,
) -> None:
    cost = {"train_seconds": 6.0, "eval_seconds": 4.0}
    rows = [trial(f"{number:05d}", 4.0, 4.0, spec_hash=name, **cost) for number, name in enumerate("aab")]
    out = make_sweep(rows)
    table = TrialTable.read(out)
    table.trials["reused_from"] = [None, "here/00000", "elsewhere/00007"]
    curve = anytime_data(table, SweepFile.read(out).objectives)
    assert curve.seconds.tolist() == [10.0, 10.0, 20.0]


def test_an_empty_table_has_an_empty_curve(make_sweep) -> None:  # type: ignore[no-untyped-def]
    out = make_sweep(None)
    curve = anytime_data(TrialTable.read(out), SweepFile.read(out).objectives)
    assert len(curve.seconds) == len(curve.hypervolume) == 0
