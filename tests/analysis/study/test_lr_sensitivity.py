"""The best learning rate, the range around it, and the fronts and the attainment of the arms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.figures.attainment import attainment_figures
from analysis.figures.tuning_curve import TuningCurve, expected_best
from analysis.report.study_text import sensitivity_line
from analysis.study.hand_tuning import best_rate, edge_of_curve
from analysis.study.sensitivity import rate_sensitivity
from tests.analysis.conftest import MakeGrid, MakeRow, Row
from tests.analysis.study.conftest import DIVERGED, MakeStudy, auto, hand


@pytest.mark.parametrize(
    ("places", "facts"),
    [
        ([(1e-4, False, DIVERGED), (1e-3, False, DIVERGED), (1e-4, True, DIVERGED)], (2, True, 2)),
        ([(1e-4, True, {})], (0, False, 0)),
    ],
    ids=["all diverged", "AutoLR alone"],
)
def test_without_an_outcome_at_a_fixed_rate_no_rate_is_called_the_best(
    grid: MakeGrid, row: MakeRow, places: list[tuple[float, bool, Row]], facts: tuple[int, bool, int]
) -> None:
    found = grid([row(0.2, lr, 0, auto=auto) | fields for lr, auto, fields in places])
    (item,) = rate_sensitivity(found)
    assert (item.best_lr, item.near_best, item.decades) == (None, None, None)
    assert (len(item.rates), item.has_front, item.diverged) == facts


def test_the_range_within_5_percent_is_that_of_neighbours_of_the_best(grid: MakeGrid, row: MakeRow) -> None:
    volumes = {1e-5: 0.395, 3e-5: 0.2, 1e-4: 0.385, 3e-4: 0.4, 1e-3: 0.3}
    rows = [row(volume, lr, seed) for lr, volume in volumes.items() for seed in (0, 1)]
    rows += [row(0.36, lr, 0, auto=True) for lr in (1e-4, 1e-3)]
    (found,) = rate_sensitivity(grid(rows))
    assert (found.best_lr, found.near_best, found.decades) == (3e-4, (1e-4, 3e-4), pytest.approx(math.log10(3)))
    assert found.spread == pytest.approx(0.2)
    assert "hypervolume differs by 0.200" in sensitivity_line(found)
    assert [(item.lr, item.seeds) for item in found.auto["gen-clip/fresh"]] == [(1e-4, 1), (1e-3, 1)]


def test_arms_are_compared_as_fronts_and_seeds_as_attainment(study: MakeStudy) -> None:
    """All losses are 4 with fixed rates; with AutoLR, the forget loss is 6 and the retain loss is 2."""
    seeds = range(3)
    fixed = hand(seeds=seeds, forget_loss_capped=4.0, retain_loss=4.0)
    found = study(fixed + auto(seeds=seeds, forget_loss_capped=6.0, retain_loss=2.0))
    (fronts,) = found.fronts
    assert list(fronts.indicators) == ["ngdiff, fixed lr", "ngdiff, AutoLR gen/same"]
    assert fronts.indicators["ngdiff, AutoLR gen/same"].epsilon == 0.0
    assert fronts.indicators["ngdiff, fixed lr"].epsilon == pytest.approx(0.25)
    (figure,) = attainment_figures(study(hand() + auto()), ("x", "y"))
    surfaces, _ = figure.panels
    assert [(line.name, line.style) for line in surfaces.lines] == [
        *(("AutoLR gen/same", look) for look in ("line", "dashed", "dashed")),
        *(("lr 1e-4", look) for look in ("line", "dashed", "dashed")),
    ]


def test_rates_are_compared_on_the_seeds_that_all_of_them_have(grid: MakeGrid, row: MakeRow) -> None:
    """Odd seeds are harder, and 3e-3 failed on them. On even seeds, 3e-3 is 0.1 below 1e-3."""
    volumes = {3e-4: 0.1, 1e-3: 0.5, 3e-3: 0.4, 1e-2: 0.1}
    rows = []
    for seed in range(6):
        for lr, volume in volumes.items():
            failed = lr == 3e-3 and seed % 2
            own = {"status": "failed"} if failed else {}
            rows.append(row(max(0.01, volume - 0.3 * (seed % 2)), lr, seed, **own))
        rows.append(row(0.45 - 0.3 * (seed % 2), 1e-3, seed, auto=True))
    (found,) = rate_sensitivity(grid(rows))
    assert (found.best_lr, found.left_out) == (1e-3, (1, 3, 5))
    assert [item.seeds for item in found.rates] == [3, 3, 3, 3]
    assert found.spread == pytest.approx(0.4)
    assert [(item.seeds, item.hypervolume) for item in found.auto["gen-clip/fresh"]] == [(3, pytest.approx(0.45))]


@pytest.mark.parametrize(
    ("scores", "best"),
    [((0.4, 0.4, 0.4), 1e-4), ((0.4, 0.3, 0.4), 1e-5), ((0.3, 0.4, 0.4), 1e-4), ((0.4, 0.4 - 1e-14, 0.3), 1e-4)],
)
def test_ties_go_to_an_inner_rate(scores: tuple[float, ...], best: float) -> None:
    rates = (1e-5, 1e-4, 1e-3)
    assert best_rate(rates, scores) == best
    assert (edge_of_curve(rates, scores) is not None) == (best == 1e-5)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_the_tuning_curve_is_the_mean_over_all_subsets(scores: list[float]) -> None:
    subsets = [list(itertools.combinations(scores, n)) for n in range(1, len(scores) + 1)]
    assert expected_best(scores) == pytest.approx([np.mean([max(item) for item in sets]) for sets in subsets])


def test_an_automatic_rate_equals_the_best_of_as_many_rates_as_the_curve_needs_to_reach_it() -> None:
    # Best of 1: mean 0.3; of 2: (0.3 + 0.6 + 0.6) / 3 = 0.5; of 3: 0.6.
    expected = expected_best([0.0, 0.3, 0.6])
    assert expected == pytest.approx([0.3, 0.5, 0.6])
    found = [TuningCurve(expected, quality, 1.0).equals for quality in (0.4, 0.7, 0.2)]
    assert found == pytest.approx([1.5, math.inf, 1.0])
