"""Forget quality against all permutations of the pooled sample."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.metrics.forget_quality import forget_quality

samples = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20)


def largest_gap(first: list[float], second: list[float]) -> float:
    def share_up_to(x: float, sample: list[float]) -> float:
        return sum(value <= x for value in sample) / len(sample)

    return max(abs(share_up_to(x, first) - share_up_to(x, second)) for x in [*first, *second])


@pytest.mark.parametrize("sizes", [(3, 3), (4, 5), (2, 7)])
def test_the_p_value_is_the_share_of_relabellings_with_as_large_a_gap(sizes: tuple[int, int]) -> None:
    n, m = sizes
    pooled = np.random.default_rng(n).permutation(n + m).astype(float).tolist()
    observed = largest_gap(pooled[:n], pooled[n:])
    gaps = []
    for chosen in combinations(range(n + m), n):
        rest = [pooled[i] for i in range(n + m) if i not in chosen]
        gaps.append(largest_gap([pooled[i] for i in chosen], rest))
    expected = sum(gap >= observed - 1e-12 for gap in gaps) / len(gaps)
    found = forget_quality(pooled[:n], pooled[n:])
    assert found.p_value == pytest.approx(expected, rel=1e-12)
    assert found.statistic == pytest.approx(observed, rel=1e-12)


@given(first=samples, second=samples)
def test_the_statistic_is_the_largest_gap_of_the_distributions(first: list[float], second: list[float]) -> None:
    assert forget_quality(first, second).statistic == pytest.approx(largest_gap(first, second), abs=1e-12)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_samples_that_do_not_overlap_have_the_smallest_p_value(n: int) -> None:
    """Of all ways to split 2n values in two halves, two have a gap of 1."""
    found = forget_quality(np.arange(n), np.arange(n) + n)
    assert found.statistic == 1.0
    assert found.p_value == pytest.approx(2 / math.comb(2 * n, n), rel=1e-12)


def test_a_model_compared_with_itself_is_indistinguishable_and_nan_stays_nan() -> None:
    ratios = np.random.default_rng(0).lognormal(size=50)
    assert forget_quality(ratios, ratios) == (1.0, 0.0)
    assert all(math.isnan(value) for value in forget_quality([1.0, math.nan], [1.0, 2.0]))
    assert all(math.isnan(value) for value in forget_quality([1.0, 2.0], [math.nan]))


def test_interleaved_samples_are_indistinguishable() -> None:
    """Seven against seven with a gap of one item: scipy's exact p-value rounds to more than 1."""
    found = forget_quality([1, 2, 4, 1, 2, 4, 3], [0, 2, 1, 1, 4, 3, 3])
    assert found.p_value == pytest.approx(1.0, abs=1e-3)
    assert found.statistic == pytest.approx(1 / 7, rel=1e-12)


def test_the_logarithm_of_the_truth_ratios_gives_the_same_answer_even_where_they_overflow() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=30), rng.normal(1.0, size=30)
    expected = forget_quality(first, second)
    assert forget_quality(np.exp(first), np.exp(second)) == expected
    with np.errstate(over="ignore"):
        exploded = np.exp(first), np.append(np.exp(second[:-1]), np.exp(1e4))
    assert forget_quality(*exploded) == forget_quality(first, np.append(second[:-1], 1e4))
