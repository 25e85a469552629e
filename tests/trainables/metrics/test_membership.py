"""Membership inference against brute force and closed forms, PrivLeak against MUSE's paper and code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from trainables.metrics.items import Array
from trainables.metrics.membership import (
    loss_scores,
    membership_auc,
    min_k_plus_plus_scores,
    min_k_scores,
)
from trainables.metrics.privleak import privleak

scores = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-5.0, 5.0), st.sampled_from([-math.inf, math.inf])),
    min_size=1,
    max_size=12,
)


@given(members=scores, others=scores)
def test_auc_is_the_share_of_pairs_won_with_ties_counting_half(members: list[float], others: list[float]) -> None:
    won = sum((m > o) + 0.5 * (m == o) for m in members for o in others)
    assert membership_auc(members, others) == won / (len(members) * len(others))


def test_min_k_plus_plus_of_two_words_is_the_root_of_their_odds() -> None:
    """Of words with p and q = 1 - p, p > q: mu and sigma^2 = p q ln(p/q)^2 make the likelier word sqrt(q/p) and the
    other -sqrt(p/q)."""
    p = np.array([0.9, 0.8, 0.6])
    q = 1 - p
    mean, std = p * np.log(p) + q * np.log(q), np.sqrt(p * q) * np.log(p / q)
    likelier = min_k_plus_plus_scores([np.log(p)], [mean], [std], fraction=1.0)
    other = min_k_plus_plus_scores([np.log(q)], [mean], [std], fraction=1.0)
    lowest = min_k_plus_plus_scores([np.log(q)], [mean], [std], fraction=0.1)
    assert likelier == pytest.approx([np.sqrt(q / p).mean()], rel=1e-12)
    assert other == pytest.approx([-np.sqrt(p / q).mean()], rel=1e-12)
    assert lowest == pytest.approx([-3.0], rel=1e-12)


def test_min_k_plus_plus_of_a_position_without_doubt_is_finite() -> None:
    """If the model is sure of one word, log p = 0 is also the mean, and the spread is 0."""
    assert min_k_plus_plus_scores([[0.0]], [[0.0]], [[0.0]]).tolist() == [0.0]
    assert min_k_plus_plus_scores([[-2.0]], [[0.0]], [[0.0]]).tolist() == [-2000.0]


def on_itself(tokens: Sequence[Array]) -> Array:
    return min_k_plus_plus_scores(tokens, means=tokens, stds=tokens)


@pytest.mark.parametrize("scores_of", [loss_scores, min_k_scores, on_itself])
def test_a_nan_token_makes_its_text_nan(scores_of: Callable[[Sequence[Array]], Array]) -> None:
    rows = [np.array([-1.0, np.nan, -3.0, -4.0, -5.0]), np.array([-1.0, -2.0])]
    assert np.isnan(scores_of(rows)).tolist() == [True, False]


def test_a_nan_score_makes_the_auc_nan() -> None:
    assert math.isnan(membership_auc([1.0, math.nan], [1.0]))
    assert math.isnan(membership_auc([1.0], [math.nan]))


# PrivLeak ------------------------------------------------------------------------------------------------------------

MUSE_NEWS_RETRAINED = 0.4772  # AUC of the retrained model on MUSE-News as MUSE counts it, holdout as the members


@pytest.mark.parametrize(
    ("unlearned", "retrained", "expected"),
    [
        # MUSE's table 3: WHP, whose forget set stands out as unknown; the target, whose holdout wins 1 pair in 1,000.
        (0.0, 1 - MUSE_NEWS_RETRAINED, 109.6),
        (0.999, 1 - MUSE_NEWS_RETRAINED, -99.8),
        (1.0, 1 - MUSE_NEWS_RETRAINED, -100.0),
        (0.37, 0.37, 0.0),
        (math.nan, 0.5, math.nan),
        (0.5, math.nan, math.nan),
        (0.5, 1.0, math.nan),
    ],
)
def test_privleak_has_the_values_published_for_muse_news(unlearned: float, retrained: float, expected: float) -> None:
    found = round(privleak(unlearned_auc=unlearned, retrained_auc=retrained), 1)
    assert found == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


def test_privleak_equals_the_arithmetic_of_muse_on_the_same_scores() -> None:
    rng = np.random.default_rng(0)
    forget, holdout = rng.normal(-2.0, 1.0, 60), rng.normal(-2.5, 1.0, 70)
    retrained_forget, retrained_holdout = rng.normal(-2.4, 1.0, 60), rng.normal(-2.5, 1.0, 70)
    unlearned = mannwhitneyu(holdout, forget).statistic / (60 * 70)
    retrained = mannwhitneyu(retrained_holdout, retrained_forget).statistic / (60 * 70)
    found = privleak(
        unlearned_auc=membership_auc(forget, holdout),
        retrained_auc=membership_auc(retrained_forget, retrained_holdout),
    )
    assert found == pytest.approx(100 * (unlearned - retrained) / retrained, rel=1e-12)
    assert found < 0, "the forget set is still the likelier one: under-unlearning"
