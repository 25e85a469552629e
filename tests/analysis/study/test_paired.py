"""The tests of a mean difference, exact intervals, Holm's correction and tuning curves, against independent sources."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.study.paired import (
    CAPITAL,
    exact_share,
    holm,
    lower_bound,
    p_above,
    p_below,
    paired,
    seeds_to_tell,
    sign_flip_p,
    t_interval,
    upper_bound,
)
from analysis.study.tuning_curve import expected_best, tuning_curve

VALUES = st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 3))


@given(st.lists(VALUES, min_size=2, max_size=9).filter(lambda xs: len(set(xs)) > 1))
def test_the_interval_is_scipys_for_related_samples(differences: list[float]) -> None:
    expected = stats.ttest_rel(differences, np.zeros(len(differences))).confidence_interval(0.95)
    assert t_interval(differences) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("n", [2, 5, 6, 8])
def test_the_sign_flip_test_is_scipys_exact_permutation_test(n: int) -> None:
    generator = np.random.default_rng(n)
    for differences in (generator.normal(0.3, 1, n), generator.integers(-3, 4, n) / 4):
        expected = stats.permutation_test(
            (differences,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", vectorized=True
        )
        assert sign_flip_p(differences) == pytest.approx(expected.pvalue, abs=1e-12)


def test_many_pairs_are_tested_by_random_flips_close_to_the_normal_approximation() -> None:
    differences = np.random.default_rng(0).normal(0.35, 1, 40)
    expected = stats.ttest_1samp(differences, 0).pvalue
    assert 0.001 < expected < 0.2
    assert sign_flip_p(differences) == pytest.approx(expected, rel=0.15)


def test_a_single_pair() -> None:
    one = paired([0.25])
    assert (one.mean, one.t_interval, one.p_below, one.sign_flip_p) == (0.25, None, 1.0, 1.0)


def test_holm_by_hand() -> None:
    """The sorted p-values 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, made monotone: 0.02, 0.03, 0.06, 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([0.02]) == (0.02,)
    assert holm([]) == ()


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6))
def test_the_tuning_curve_is_the_mean_over_all_subsets(rates: list[tuple[float, float]]) -> None:
    choice, report = zip(*rates, strict=True)
    subsets = [list(itertools.combinations(range(len(rates)), n)) for n in range(1, len(rates) + 1)]
    expected = [np.mean([report[max(subset, key=lambda i: choice[i])] for subset in sets]) for sets in subsets]
    assert expected_best(choice, report) == pytest.approx(expected, abs=1e-12)


def test_autolr_equals_the_best_of_as_many_rates_as_the_curve_needs_to_reach_it() -> None:
    # Best of 1: mean 0.3; of 2: (0.3 + 0.6 + 0.6) / 3 = 0.5; of 3: 0.6.
    curve = tuning_curve([0.0, 0.3, 0.6], 0.4)
    assert curve.expected == pytest.approx([0.3, 0.5, 0.6])
    assert curve.equals == pytest.approx(1.5)
    assert tuning_curve([0.0, 0.3, 0.6], 0.7).equals == math.inf
    assert tuning_curve([0.0, 0.3, 0.6], 0.2).equals == 1.0


Draw = Callable[[np.random.Generator, int], np.ndarray]
NULLS: dict[str, Draw] = {
    "rare collapse": lambda generator, n: np.where(generator.random(n) < 0.05, -0.38, 0.02),
    "least favourable": lambda generator, n: np.where(generator.random(n) < 1 / 3, -1.0, 0.5),
    "rescue": lambda generator, n: np.where(generator.random(n) < 0.1, 0.45, -0.05),
    "tied": lambda generator, n: generator.choice([-0.1, 0.0, 0.0, 0.1], n),
    "extremes": lambda generator, n: generator.choice([-1.0, 1.0], n),
}
LISTS = st.lists(st.floats(-1, 1, allow_nan=False), min_size=1, max_size=12)


@pytest.mark.parametrize("n", [6, 12, 20])
@pytest.mark.parametrize("name", NULLS)
def test_differences_of_mean_zero_are_rejected_in_at_most_5_of_100_tables(name: str, n: int) -> None:
    generator = np.random.default_rng(11)
    tables = [NULLS[name](generator, n) for _ in range(400)]
    assert np.mean([min(p_above(values), p_below(values)) < 0.025 for values in tables]) <= 0.05


@given(LISTS)
def test_the_bounds_are_the_means_that_the_test_does_not_reject(differences: list[float]) -> None:
    low, high = lower_bound(differences, 0.025), upper_bound(differences, 0.025)
    assert low <= np.mean(differences) <= high
    assert p_above(differences, low + 1e-6) >= 0.025
    assert p_below(differences, high - 1e-6) >= 0.025
    if low > -1 + 1e-6:
        assert p_above(differences, low - 1e-6) <= 0.025 + 1e-9


@pytest.mark.parametrize("difference", [0.02, 0.1, 0.5, 1.0])
def test_equal_differences_are_worth_the_most_that_a_valid_test_can_give(difference: float) -> None:
    """If -1 is as likely as a mean of 0 allows, n differences of +d have the probability (1 + d)^-n."""
    for n in (6, 20, 60):
        least = (1 + difference) ** -n
        assert min(1.0, least) <= p_above([difference] * n) <= min(1.0, least / CAPITAL[0])


def test_the_seeds_it_takes_are_the_fewest_that_tell() -> None:
    for difference in (0.1, 0.5, -0.5, 1.0):
        n = seeds_to_tell(difference, 0.025)
        assert n is not None
        assert p_above([abs(difference)] * n) < 0.025 <= p_above([abs(difference)] * (n - 1))
    assert [seeds_to_tell(difference, 0.025) for difference in (0.5, 0.2, 0.1, 0.05)] == [10, 22, 42, 83]
    assert seeds_to_tell(0.0, 0.025) is seeds_to_tell(math.nan, 0.025) is None


@pytest.mark.parametrize(("count", "n"), [(0, 7), (3, 7), (7, 7)])
def test_the_interval_of_a_share_is_scipys_exact_one(count: int, n: int) -> None:
    expected = stats.binomtest(count, n).proportion_ci(0.95, method="exact")
    found = exact_share(count, n)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
