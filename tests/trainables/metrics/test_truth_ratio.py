"""The truth ratio against geometric means of probabilities, and at the limits a diverged model reaches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gmean

from trainables.metrics.truth_ratio import forget_truth_ratio, log_truth_ratio, retain_truth_ratio, truth_ratio

probabilities = st.floats(1e-6, 1.0)


@given(right=probabilities, wrong=st.lists(probabilities, min_size=1, max_size=5))
def test_it_is_the_geometric_mean_of_the_wrong_answers_over_the_right_one(right: float, wrong: list[float]) -> None:
    ratio = truth_ratio([-np.log(right)], [-np.log(wrong)])
    assert ratio[0] == pytest.approx(gmean(wrong) / right, rel=1e-12)


def test_items_keep_their_order_and_may_have_different_numbers_of_wrong_answers() -> None:
    ratios = truth_ratio(-np.log([0.5, 0.25]), [-np.log([0.1, 0.4]), -np.log([0.5])])
    assert ratios == pytest.approx([0.4, 2.0], rel=1e-14)
    assert ratios.dtype == np.float64
    matrix = np.array([[1.0, 2.0], [3.0, 5.0]])
    assert truth_ratio([1.0, 2.0], matrix).tolist() == truth_ratio([1.0, 2.0], list(matrix)).tolist()


def test_the_forget_aggregate_rewards_ratios_near_1_and_the_retain_aggregate_likelier_right_answers() -> None:
    assert forget_truth_ratio([0.4, 2.5, 1.0]) == pytest.approx((0.4 + 0.4 + 1.0) / 3, rel=1e-15)
    assert retain_truth_ratio([0.4, 2.5, 1.0]) == pytest.approx(0.6 / 3, rel=1e-15)
    assert forget_truth_ratio([5e-324]) == pytest.approx(0.0, abs=1e-300), "its inverse overflows"


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=4))
def test_the_forget_aggregate_does_not_change_when_every_ratio_is_inverted(ratios: list[float]) -> None:
    assert forget_truth_ratio(ratios) == pytest.approx(forget_truth_ratio([1 / ratio for ratio in ratios]), rel=1e-12)


@given(st.lists(st.floats(0.0, np.inf), min_size=1, max_size=4))
def test_both_aggregates_are_shares(ratios: list[float]) -> None:
    assert 0.0 <= forget_truth_ratio(ratios) <= 1.0
    assert 0.0 <= retain_truth_ratio(ratios) <= 1.0


@pytest.mark.parametrize("huge", [1e3, 1e38, 1e308, np.inf])
def test_a_diverged_model_reaches_the_limits_exactly(huge: float) -> None:
    hates_the_truth, knows_the_truth = truth_ratio([huge], [[1.0, 2.0]]), truth_ratio([1.0], [[huge, huge]])
    assert hates_the_truth.tolist() == [np.inf]
    assert knows_the_truth.tolist() == [0.0]
    assert forget_truth_ratio(hates_the_truth) == forget_truth_ratio(knows_the_truth) == 0.0
    assert retain_truth_ratio(hates_the_truth) == 0.0
    assert retain_truth_ratio(knows_the_truth) == 1.0


@pytest.mark.parametrize("huge", [1e3, 1e38, 1e308])
def test_equally_huge_losses_are_equally_likely_and_logarithms_do_not_overflow(huge: float) -> None:
    assert truth_ratio([huge], [[huge, huge, huge]]).tolist() == [1.0]
    assert log_truth_ratio([huge, huge / 2], [[0.0], [0.0]]).tolist() == [huge, huge / 2]


@pytest.mark.parametrize(("right", "wrong"), [(np.nan, 1.0), (1.0, np.nan), (np.inf, np.inf)])
def test_nan_stays_nan(right: float, wrong: float) -> None:
    ratios = truth_ratio([1.0, right], [[1.0], [wrong]])
    assert np.isnan(ratios).tolist() == [False, True]
    assert np.isnan(forget_truth_ratio(ratios))
    assert np.isnan(retain_truth_ratio(ratios))
