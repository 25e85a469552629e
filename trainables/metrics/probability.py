"""The length-normalised probability of the right answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from trainables.metrics.item_mean import item_mean
from trainables.metrics.metric import TOFU, Array, Cost, Metric


def probability(losses: Array) -> Array:
    """Return ``exp(-loss)`` per item, float64 ``(n,)``, for losses in nats per token."""
    import numpy as np

    return np.exp(-losses)


def normalised_probability(losses: Array, perturbed: Sequence[Array]) -> Array:
    """Return ``p / (p + sum_k p_k)`` per item, float64 ``(n,)``: the probability of the right answer among all answers.

    ``losses`` is ``(n,)``, the losses of the right answers. ``perturbed`` has one array per item, with the loss of each
    wrong answer. All losses are in nats per token. An item's result is NaN if the losses of the right answer and of a
    wrong answer are both infinite.
    """
    import numpy as np

    # 1 / (1 + sum_k exp(loss - loss_k)) is defined even if every p underflows, as for a diverged model.
    with np.errstate(over="ignore", invalid="ignore"):
        odds = [np.exp(loss - others).sum() for loss, others in zip(losses, perturbed, strict=True)]
    return 1.0 / (1.0 + np.array(odds))


_probability = partial(Metric, sets=("probability", "tofu"), cost=Cost.FORWARD, citation=TOFU)
METRICS = (
    _probability(
        name="forget_probability",
        label="probability of the forget set's answers",
        direction="min",
        of="forget",
        formula="mean of exp(-loss per token) over the answers of the forget set",
        measure=lambda scores: item_mean(probability(scores.losses("forget"))),
    ),
    _probability(
        name="retain_probability",
        label="probability of the retain set's answers",
        direction="max",
        of="retain",
        formula="mean of exp(-loss per token) over the answers of a sample of the retain set",
        measure=lambda scores: item_mean(probability(scores.losses("retain"))),
    ),
)
