"""The test of a mean of bounded differences: valid whatever their shape, and as sharp as that allows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.errors import AnalysisError
from analysis.study.paired import (
    CAPITAL,
    exact_share,
    lower_bound,
    p_above,
    p_below,
    seeds_to_tell,
    sign_flip_p,
    upper_bound,
)

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


def test_the_sign_flip_test_calls_a_rare_collapse_better_in_most_tables_and_this_one_never() -> None:
    generator = np.random.default_rng(3)
    tables = [NULLS["rare collapse"](generator, 6) for _ in range(300)]
    assert np.mean([sign_flip_p(values) < 0.05 for values in tables]) > 0.6
    assert not any(p_above(values) < 0.05 for values in tables)


@given(LISTS)
def test_the_bounds_are_the_means_that_the_test_does_not_reject(differences: list[float]) -> None:
    low, high = lower_bound(differences, 0.025), upper_bound(differences, 0.025)
    assert low <= np.mean(differences) <= high
    assert p_above(differences, low + 1e-6) >= 0.025
    assert p_below(differences, high - 1e-6) >= 0.025
    if low > -1 + 1e-6:
        assert p_above(differences, low - 1e-6) <= 0.025 + 1e-9


@given(LISTS, st.randoms(use_true_random=False))
def test_the_order_of_the_seeds_says_nothing(differences: list[float], random: object) -> None:
    shuffled = list(differences)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert p_above(shuffled) == pytest.approx(p_above(differences), rel=1e-9)


@pytest.mark.parametrize("difference", [0.02, 0.1, 0.5, 1.0])
def test_equal_differences_are_worth_the_most_that_a_valid_test_can_give(difference: float) -> None:
    """If -1 were as likely as mean 0 allows, n times +d would have the probability (1 + d)^-n, but for some capital."""
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


@pytest.mark.parametrize("wrong", [[1.5], [math.nan], [math.inf], [[0.1]]])
def test_what_no_two_shares_of_a_box_differ_by_is_refused(wrong: list[float]) -> None:
    with pytest.raises(AnalysisError):
        p_above(wrong)
