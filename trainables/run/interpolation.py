"""Interpolate between the target's weights and the last weights of a run.

A model on the line between these weights is often better than the model with the last weights, as in robust fine-tuning
(Wortsman et al. 2022, WiSE-FT, arXiv:2109.01903). On the way from the target's weights to the last weights, most
forgetting happens at the beginning, and most of the quality on retained data is lost at the end.

For a LoRA adapter, both low-rank matrices are interpolated, so the model's weights follow a curve instead of a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

FORGOTTEN_SHARE = 0.9
"""A model has forgotten if its forget loss rose by at least this fraction of the rise from target to last weights."""

KEPT_SHARE = 0.8
"""A model has kept its quality if its ``Quality.agreement`` is at least this fraction of the target's value."""

MIN_AGREEMENT = 0.1
"""If the target's ``Quality.agreement`` is below this value, the retain loss measures the quality instead."""

HALVINGS = 5


class Quality(NamedTuple):
    """The measurements of one model on the line.

    Attributes:
        forget_loss: the forget loss (nats per token), with each token's loss capped at that of a uniform guess.
        agreement: the share of an answer's tokens before the model's first wrong prediction, averaged over the retain
            answers; NaN if unknown.
        retain_loss: the retain loss (nats per token).
    """

    forget_loss: float
    agreement: float
    retain_loss: float


def choose_position(evaluate: Callable[[float], Quality], last: Quality) -> float:
    """Return the best position on the line from the target's weights (0) to the last weights (1), to within 1/32.

    A position is good if its model has forgotten (see ``FORGOTTEN_SHARE``) and has kept its quality (see
    ``KEPT_SHARE``). The result is the larger of two positions: the first good position, and the last position at which
    the model's quality is at least the target's. If no position is good, the result is the last position at which the
    model has kept its quality. The bisection assumes that the forget loss rises and the quality falls along the line.

    The quality is ``agreement``. If the target's ``agreement`` is NaN or below ``MIN_AGREEMENT``, the quality is
    ``exp(-retain_loss)`` instead, the mean likelihood of a token.

    Args:
        evaluate: function that returns the measurements of the model at a position. The function is called at 0 and at
            up to ``HALVINGS`` other positions.
        last: the measurements at position 1.
    """
    target = evaluate(0.0)
    uses_agreement = target.agreement >= MIN_AGREEMENT

    def quality(model: Quality) -> float:
        return model.agreement if uses_agreement else math.exp(-model.retain_loss)

    def is_good(model: Quality) -> bool:
        rise = model.forget_loss - target.forget_loss
        total_rise = last.forget_loss - target.forget_loss
        return rise >= FORGOTTEN_SHARE * total_rise and quality(model) >= KEPT_SHARE * quality(target)

    if quality(last) >= quality(target):
        return 1.0
    best_position = 1.0 if is_good(last) else None
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        position = (low + high) / 2.0
        model = evaluate(position)
        if is_good(model):
            best_position = position
        is_as_good_as_target = quality(model) >= quality(target)
        has_lost_quality = quality(model) < KEPT_SHARE * quality(target)
        must_forget_more = not is_good(model) and not has_lost_quality
        if is_as_good_as_target or must_forget_more:
            low = position
        else:
            high = position
    return low if best_position is None else best_position
