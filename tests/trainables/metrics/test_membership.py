"""Membership inference against brute force and closed forms, PrivLeak against MUSE's paper and code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.metrics.membership import loss_scores, membership_auc, min_k_plus_plus_scores, min_k_scores
from trainables.metrics.privleak import privleak

pytestmark = pytest.mark.filterwarnings("error")
scores = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-5.0, 5.0), st.sampled_from([-math.inf, math.inf])),
    min_size=1,
    max_size=12,
)


@given(members=scores, others=scores)
def test_auc_is_the_share_of_pairs_won_with_ties_counting_half(members: list[float], others: list[float]) -> None:
    won = sum((m > o) + 0.5 * (m == o) for m in members for o in others)
    assert membership_auc(members, others) == won / (len(members) * len(others))


def scores_of(*texts: Sequence[float]) -> Any:
    """Return a model's scores of texts with these log-probabilities. At each position, the mean and spread are 0."""
    tokens = [
        SimpleNamespace(log_probs=np.array(text), means=np.zeros(len(text)), stds=np.zeros(len(text))) for text in texts
    ]
    return SimpleNamespace(tokens={"forget": tokens})


def test_min_k_plus_plus_of_a_position_without_doubt_is_finite() -> None:
    """If the model is sure of one word, log p = 0 is also the mean, and the spread is 0."""
    assert min_k_plus_plus_scores(scores_of([0.0], [-2.0]), "forget").tolist() == [0.0, -2000.0]


@pytest.mark.parametrize("attack", [loss_scores, min_k_scores, min_k_plus_plus_scores])
def test_a_nan_token_makes_its_text_nan_and_a_nan_score_the_auc(attack: Callable[..., Any]) -> None:
    found = attack(scores_of([-1.0, math.nan, -3.0, -4.0, -5.0], [-1.0, -2.0]), "forget")
    assert np.isnan(found).tolist() == [True, False]
    assert math.isnan(membership_auc(found, [1.0]))
    assert math.isnan(membership_auc([1.0], found))


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
