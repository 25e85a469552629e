"""PrivLeak against the arithmetic of MUSE's code and the values and signs its paper publishes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from trainables.metrics.membership import membership_auc
from trainables.metrics.privleak import privleak

MUSE_NEWS_RETRAINED = 0.4772  # AUC of the retrained model on MUSE-News as MUSE counts it, holdout as the members


@pytest.mark.parametrize(("unlearned_auc", "published"), [(0.0, 109.6), (0.999, -99.8), (1.0, -100.0)])
def test_it_has_the_values_published_for_muse_news(unlearned_auc: float, published: float) -> None:
    """Table 3: WHP, whose forget set stands out as unknown; the target, whose holdout wins one pair in a thousand."""
    assert round(privleak(unlearned_auc=unlearned_auc, retrained_auc=1 - MUSE_NEWS_RETRAINED), 1) == published


def test_a_model_like_the_retrained_one_leaks_nothing_and_nan_stays_nan() -> None:
    assert privleak(unlearned_auc=0.37, retrained_auc=0.37) == 0.0
    assert math.isnan(privleak(unlearned_auc=math.nan, retrained_auc=0.5))
    assert math.isnan(privleak(unlearned_auc=0.5, retrained_auc=math.nan))
    assert math.isnan(privleak(unlearned_auc=0.5, retrained_auc=1.0)), "1 - 1 cannot be a divisor"


def test_it_equals_the_arithmetic_of_muse_on_the_same_scores() -> None:
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
    assert found < 0  # the forget set is still the likelier one: under-unlearning
