"""Forget quality: can the unlearned model be told apart from one that never saw the forget set?"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

from trainables.metrics.items import column
from trainables.metrics.metric import FORGET_CHOICES, RETAIN_MODEL, TOFU, Cost, Metric

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trainables.scoring.model_scores import ModelScores


class ForgetQuality(NamedTuple):
    """``p_value`` in [0, 1], near 1 for good unlearning; ``statistic`` the largest gap of the two distributions."""

    p_value: float
    statistic: float


def forget_quality(unlearned: ArrayLike, retained: ArrayLike) -> ForgetQuality:
    """Two-sided two-sample Kolmogorov-Smirnov test between two models' truth ratios on the forget set.

    Any strictly monotone function of the truth ratio gives the same answer; its logarithm does not overflow. The two
    samples need not be equally long. Both fields NaN where a value is NaN. Maini et al., TOFU (arXiv:2401.06121).
    """
    from scipy.stats import ks_2samp  # a second to import: not for those who only ask for --help

    first = column(unlearned, "truth ratios of the unlearned model")
    second = column(retained, "truth ratios of the retain model")
    with warnings.catch_warnings():
        # Where the gap is the least possible, rounding may lift the exact p-value above 1, and scipy says that it falls
        # back on its approximation, 0.9999 or more: nothing the user can act on.
        warnings.filterwarnings("ignore", message="ks_2samp: Exact calculation unsuccessful", category=RuntimeWarning)
        result = ks_2samp(first, second)
    return ForgetQuality(float(result.pvalue), float(result.statistic))


def _measured(scores: ModelScores) -> float:
    assert scores.retain is not None
    return forget_quality(scores.choices["forget"].log_truth_ratios, scores.retain.log_truth_ratios).p_value


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
        formula="p-value of a two-sample Kolmogorov-Smirnov test: forget truth ratios against the retain model's",
        citation=TOFU,
        measure=_measured,
    ),
)
