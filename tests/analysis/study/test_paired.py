"""The tests of paired results, and what a number of seeds can show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.study.paired import (
    ALPHA,
    POWER,
    detectable,
    exact_share,
    least_seeds,
    mean_interval,
    p_above,
    p_below,
    p_more_often,
)

VALUES = st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 3))


@given(st.lists(VALUES, min_size=2, max_size=9))
def test_a_p_value_of_a_mean_is_never_below_that_of_the_t_test_and_of_the_sign_flips(differences: list[float]) -> None:
    p = p_above(differences)
    assert p >= min(ALPHA, 2.0 ** -len(differences)) - 1e-12
    if len(set(differences)) > 1:
        assert p >= stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue - 1e-9 or p == 1.0
    assert p == p_below([-value for value in differences])


def test_equal_differences_are_decided_by_the_sign_flips_alone() -> None:
    assert p_above([0.05] * 8) == pytest.approx(2.0**-8)
    assert p_above([0.0] * 8) == p_above([0.05]) == p_above([-0.05] * 8) == 1.0
    assert p_above([0.01] * 8, 0.02) == 1.0
    assert p_below([0.01] * 8, 0.02) == pytest.approx(2.0**-8)


def test_mcnemars_test_counts_only_the_seeds_on_which_the_sides_differ() -> None:
    """Nine pairs differ, and eight of them favour the first side: P(X >= 8) = 10 / 512."""
    first = [True] * 8 + [False] + [True] * 11
    second = [False] * 8 + [True] + [True] * 11
    assert p_more_often(first, second) == pytest.approx(10 / 512)
    assert p_more_often(second, first) == p_more_often(first, first) == 1.0


@pytest.mark.parametrize(("count", "n", "low", "high"), [(0, 20, 0.0, 0.16843), (3, 20, 0.03207, 0.37893)])
def test_the_interval_of_a_share_is_exact(count: int, n: int, low: float, high: float) -> None:
    share = exact_share(count, n)
    assert (share.share, share.low, share.high) == pytest.approx((count / n, low, high), abs=1e-5)


def test_an_interval_needs_two_seeds() -> None:
    assert all(map(math.isnan, mean_interval([0.1])))
    assert mean_interval([0.1, 0.1]) == pytest.approx((0.1, 0.1))
    assert mean_interval([0.0, 0.2]) == pytest.approx((0.1 - 12.7062 * 0.1, 0.1 + 12.7062 * 0.1), rel=1e-5)


@pytest.mark.parametrize("comparisons", [1, 2, 4, 16])
def test_the_least_seeds_are_those_with_which_the_most_extreme_result_is_significant(comparisons: int) -> None:
    least, level = least_seeds(comparisons), ALPHA / 2 / comparisons
    assert p_above([1.0] * least) < level <= p_above([1.0] * (least - 1))
    assert math.isnan(detectable(least - 1, 0.04, comparisons))


def test_the_detectable_difference_is_shown_with_power_0_8() -> None:
    generator, n, spread = np.random.default_rng(0), 12, 0.04
    difference = detectable(n, spread, comparisons=2)
    values = generator.normal(difference, spread, (4000, n))
    p = stats.ttest_1samp(values, 0.0, axis=1, alternative="greater").pvalue
    assert np.mean(p < ALPHA / 4) == pytest.approx(POWER, abs=0.02)


def test_the_default_number_of_seeds_shows_a_difference_of_0_05_in_eight_comparisons() -> None:
    assert detectable(12, 0.04, 8) < 0.05 < detectable(11, 0.04, 8)
