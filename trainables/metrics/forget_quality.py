"""Forget quality: a statistical test for a difference between the unlearned model and the retain model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from trainables.metrics.metric import FORGET_CHOICES, RETAIN_MODEL, TOFU, Cost, Metric

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trainables.scoring.language import ModelScores


def forget_quality(unlearned: ArrayLike, retained: ArrayLike) -> tuple[float, float]:
    """Compare the truth ratios of two models on the forget set by a two-sided two-sample Kolmogorov-Smirnov test.

    Return the p-value and the test statistic, which is the largest gap between the two CDFs. A p-value near 1 means
    good unlearning. The samples may be truth ratios or their logarithms, with the same result, and may differ in
    length. If a value is NaN, both results are NaN. Maini et al., TOFU (arXiv:2401.06121).
    """
    from scipy.stats import ks_2samp  # imported here, because the import takes a second, too long for --help

    with warnings.catch_warnings():
        # If the gap is minimal, rounding may raise the exact p-value above 1. scipy then uses an approximation, 0.9999
        # or more, and issues a warning that does not help the user.
        warnings.filterwarnings("ignore", message="ks_2samp: Exact calculation unsuccessful", category=RuntimeWarning)
        result = ks_2samp(unlearned, retained)
    return float(result.pvalue), float(result.statistic)


def _measure(scores: ModelScores) -> float:
    assert scores.retain is not None
    p_value, _ = forget_quality(scores.choices["forget"].log_truth_ratios, scores.retain.log_truth_ratios)
    return p_value


METRICS = (
    Metric(
        name="forget_quality",
        label="forget quality",
        unit="p-value",
        direction="max",
        of="forget",
        sets=("tofu",),
        needs=(FORGET_CHOICES, RETAIN_MODEL),
        cost=Cost.CHOICES,
        formula="p-value of a two-sample Kolmogorov-Smirnov test that compares the truth ratios of the model and of "
        "the retain model on the forget set",
        citation=TOFU,
        measure=_measure,
    ),
)
