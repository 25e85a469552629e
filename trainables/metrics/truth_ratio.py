"""Truth ratio: the probability of wrong answers, divided by the probability of a paraphrase of the right answer.

Maini et al., TOFU, COLM 2024 (arXiv:2401.06121). As in the published ``aggregate_eval_stat.py``, the probabilities of
wrong answers are averaged geometrically.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from trainables.metrics.item_mean import ItemMean, item_mean
from trainables.metrics.metric import FORGET_CHOICES, RETAIN_CHOICES, TOFU, Array, Cost, Metric


def log_truth_ratio(paraphrased: Array, perturbed: Sequence[Array]) -> Array:
    """Return ``loss_paraphrased - mean_k loss_perturbed_k`` per item, float64 ``(n,)``.

    ``paraphrased`` is ``(n,)``, and ``perturbed`` has one array per item, with the loss of each wrong answer. All
    losses are in nats per token. A result is NaN if the item's paraphrased loss and one of its perturbed losses are
    both infinite.
    """
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):  # inf - inf is NaN on purpose
        return np.array([(loss - others).mean() for loss, others in zip(paraphrased, perturbed, strict=True)])


def truth_ratio(paraphrased: Array, perturbed: Sequence[Array]) -> Array:
    """Return the exponential of :func:`log_truth_ratio`, float64 ``(n,)`` in [0, inf].

    The ratio is near 0 if the model knows the answer, and near 1 if the model does not know the answer.
    """
    import numpy as np

    with np.errstate(over="ignore"):  # a diverged model's ratio is inf, which the aggregates below handle
        return np.exp(log_truth_ratio(paraphrased, perturbed))


def forget_truth_ratio(ratios: Array) -> ItemMean:
    """Return ``mean min(s, 1/s)`` with ``s = 1/ratio``, in [0, 1]; NaN if a ratio is NaN.

    The result is 1 if right and wrong answers are equally likely. An item with a ratio of 0 or inf counts as 0.
    """
    import numpy as np

    with np.errstate(divide="ignore", over="ignore"):
        return item_mean(np.minimum(ratios, 1.0 / ratios))


def retain_truth_ratio(ratios: Array) -> ItemMean:
    """Return ``mean max(0, 1 - 1/s)`` with ``s = 1/ratio``, in [0, 1]; NaN if a ratio is NaN.

    The result is 1 if only the right answers are likely. An item with a ratio of inf counts as 0.
    """
    import numpy as np

    return item_mean(np.maximum(0.0, 1.0 - ratios))


_ratio = partial(Metric, direction="max", sets=("default", "tofu"), cost=Cost.CHOICES, citation=TOFU)
METRICS = (
    _ratio(
        name="truth_ratio",
        label="truth ratio on the retain set",
        of="retain",
        threshold={"share": 0.7},
        needs=(RETAIN_CHOICES,),
        formula="mean of max(0, 1 - R) over a sample of the retain set, where R = exp(loss of the paraphrased answer - "
        "mean loss of the perturbed answers)",
        measure=lambda scores: retain_truth_ratio(scores.choices["retain"].truth_ratios),
    ),
    _ratio(
        name="forget_truth_ratio",
        label="truth ratio on the forget set",
        of="forget",
        needs=(FORGET_CHOICES,),
        formula="mean of min(R, 1/R) over the forget set, where R is as for truth_ratio",
        measure=lambda scores: forget_truth_ratio(scores.choices["forget"].truth_ratios),
    ),
)
