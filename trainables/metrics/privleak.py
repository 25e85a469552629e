"""PrivLeak: how well membership in the forget set can be inferred, relative to the retain model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainables.metrics.membership import MIN_K_ATTACK
from trainables.metrics.metric import HOLDOUT, MUSE, RETAIN_MODEL, Cost, Metric

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores


def privleak(*, unlearned_auc: float, retrained_auc: float) -> float:
    """Return ``100 (A_unlearned - A_retrained) / A_retrained`` with ``A = 1 - auc``, in percent.

    Both arguments are AUCs of Min-K% scores. The forget texts are the members, and the holdout texts are the
    non-members. The ideal value is 0. A negative value means under-unlearning. A positive value means over-unlearning.
    The result is NaN if an AUC is NaN, or if ``retrained_auc`` is 1.

    In MUSE's paper, the members are the forget texts. In the code of MUSE and OpenUnlearning, the members are the
    holdout texts, so the code's AUC is ``1 - auc``. The result of this function has the sign of the published values.
    Shi et al., MUSE, ICLR 2025 (arXiv:2407.06460), section 3.1.
    """
    reference = 1.0 - retrained_auc
    if reference == 0.0:
        return math.nan
    return 100.0 * ((1.0 - unlearned_auc) - reference) / reference


def _measure(scores: ModelScores) -> float:
    assert scores.retain is not None
    retain_auc = scores.retain.min_k_auc
    assert retain_auc is not None
    return privleak(unlearned_auc=MIN_K_ATTACK.measure(scores), retrained_auc=retain_auc)


METRICS = (
    Metric(
        name="privleak",
        label="privacy leakage",
        unit="percent",
        ideal=0.0,
        knows="min",
        low=-100.0,
        high=math.inf,
        of="forget",
        sets=("muse",),
        needs=(HOLDOUT, RETAIN_MODEL),
        cost=Cost.FORWARD,
        formula="100 (A - A_retain)/A_retain, where A = 1 - mia_min_k, and A_retain is the value of A for the retain "
        "model",
        citation=MUSE,
        measure=_measure,
    ),
)
