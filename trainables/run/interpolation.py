"""Interpolate the last weights of a run towards the target's weights.

The line from the target's weights to the last weights has two parts. Most forgetting happens in the first part. The
quality on retained data falls mainly in the second part. So weights in between are often best, as in robust fine-tuning
(Wortsman et al. 2022, WiSE-FT, arXiv:2109.01903).

For a LoRA adapter, both low-rank matrices are interpolated, so the model's weights follow a curve instead of a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

FORGOTTEN = 0.9
"""A model has forgotten if its forget loss rose by at least this share of the rise at the last weights."""

KEPT = 0.8
"""A model has kept its quality if its ``Quality.answers`` is at least this share of the target's value."""

KNOWN = 0.1
"""If the target's ``Quality.answers`` is below this value, the retain loss is used instead."""

HALVINGS = 5


class Quality(NamedTuple):
    """The quality of a model between the target and the last weights.

    Attributes:
        forgotten: the capped forget loss (nats per token).
        answers: the mean share of a retain answer that the model predicts before its first error; NaN if unknown.
        retain_loss: the retain loss (nats per token).
    """

    forgotten: float
    answers: float
    retain_loss: float


def choose_share(evaluate: Callable[[float], Quality], last: Quality) -> float:
    """Return the best position on the line from the target's weights (0) to the last weights (1), found by bisection.

    The result is 1 if the last weights answer as well as the target. Otherwise, let s be the first multiple of 1/32 at
    which the model has forgotten. If the quality is lost at s, the result is the last position with kept quality. If
    the quality is kept at s, the result is the last position beyond s that answers as well as the target, or s. If only
    the last weights have forgotten and kept their quality, the result is 1.

    ``evaluate`` is called at 0 and at most ``HALVINGS`` other positions. If the target's ``answers`` is NaN or below
    ``KNOWN``, the likelihood of a token, ``exp(-L_R)``, replaces ``answers``.
    """
    target = evaluate(0.0)
    by_answers = target.answers >= KNOWN

    def kept(model: Quality) -> float:
        return model.answers if by_answers else math.exp(-model.retain_loss)

    def is_good(model: Quality) -> bool:
        rise, whole_rise = model.forgotten - target.forgotten, last.forgotten - target.forgotten
        return rise >= FORGOTTEN * whole_rise and kept(model) >= KEPT * kept(target)

    if kept(last) >= kept(target):
        return 1.0
    near, far, best = 0.0, 1.0, 1.0 if is_good(last) else None
    for _ in range(HALVINGS):
        middle = (near + far) / 2.0
        model = evaluate(middle)
        if is_good(model):
            best = middle
        if kept(model) >= kept(target) or not (is_good(model) or kept(model) < KEPT * kept(target)):
            near = middle
        else:
            far = middle
    return near if best is None else best
