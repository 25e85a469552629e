"""PrivLeak against the arithmetic of MUSE's code and the values and signs its paper publishes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from trainables.metrics.membership import membership_auc
from trainables.metrics.privleak import privleak

MUSE_NEWS_RETRAINED = 0.4772  # AUC of the retrained model on MUSE-News as MUSE counts it, holdout as the members


def test_a_forget_set_that_stands_out_as_unknown_reaches_the_most_that_muse_publishes_for_news() -> None:
    """WHP on MUSE-News: 109.6 (table 3)."""
    assert round(privleak(unlearned_auc=0.0, retrained_auc=1 - MUSE_NEWS_RETRAINED), 1) == 109.6


def test_a_model_that_unlearned_nothing_is_at_minus_100() -> None:
    """The target of MUSE-News is published at -99.8: holdout wins one pair in a thousand."""
    assert privleak(unlearned_auc=1.0, retrained_auc=1 - MUSE_NEWS_RETRAINED) == pytest.approx(-100.0, abs=1e-12)
    assert round(privleak(unlearned_auc=0.999, retrained_auc=1 - MUSE_NEWS_RETRAINED), 1) == -99.8


def test_a_model_like_the_retrained_one_leaks_nothing() -> None:
    assert privleak(unlearned_auc=0.37, retrained_auc=0.37) == 0.0


def test_it_is_what_muse_computes_from_the_same_scores() -> None:
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


def test_a_model_that_could_not_be_scored_has_no_privleak() -> None:
    assert math.isnan(privleak(unlearned_auc=math.nan, retrained_auc=0.5))
    assert math.isnan(privleak(unlearned_auc=0.5, retrained_auc=math.nan))


def test_errors_say_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"unlearned_auc must be in \[0, 1\], got 53"):
        privleak(unlearned_auc=53.0, retrained_auc=0.5)
    with pytest.raises(ValueError, match="retrained_auc must be below 1"):
        privleak(unlearned_auc=0.5, retrained_auc=1.0)
