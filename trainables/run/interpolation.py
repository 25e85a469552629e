"""Interpolate between the target's weights and the last weights of a run.

A model on the line between these weights is often better than the model with the last weights, as in robust fine-tuning
(Wortsman et al. 2022, WiSE-FT, arXiv:2109.01903). On the way from the target's weights to the last weights, most
forgetting happens at the beginning, and most of the quality on retained data is lost at the end.

The position on the line is chosen on a slice of the training retain set that contains no evaluation example, so a
choice never uses the examples on which the model is scored.

For a LoRA adapter, both low-rank matrices are interpolated, so the model's weights follow a curve instead of a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from trainables.data import DataError, TaskData
from trainables.data.overlap import unscored_retain

KEPT_SHARE = 0.8
"""A model has kept its quality if the quality is at least this fraction of the target's."""

MIN_AGREEMENT = 0.1
"""If the target's ``Quality.agreement`` is below this value, the retain loss measures the quality instead."""

HALVINGS = 5
SLICE = 64
"""The maximum number of retain examples on which the position is chosen."""


class Quality(NamedTuple):
    """The measurements of one model on the slice of the retain set.

    Attributes:
        agreement: the share of an answer's tokens before the model's first wrong prediction, averaged over the
            answers. For images, the accuracy.
        loss: the retain loss (nats per token).
    """

    agreement: float
    loss: float


def unscored_rows(data: TaskData) -> list[int]:
    """Return the indices of at most ``SLICE`` evenly spaced training retain examples that no evaluation set contains.

    Raises:
        DataError: all retain examples are evaluation examples.
    """
    rows = unscored_retain(data)
    if not rows:
        raise DataError(
            "interpolate on needs retain examples that are not used for evaluation, but all "
            f"{len(data.retain)} retain examples of {data.name} are; give more retain examples (a larger "
            "--limit), fewer evaluation examples (a shorter table retain_eval), or use --interpolate off"
        )
    count = min(SLICE, len(rows))
    return [rows[index * len(rows) // count] for index in range(count)]


def choose_position(evaluate: Callable[[float], Quality], last: Quality) -> float:
    """Return the last position on the line from the target's weights (0) to the last weights (1) that keeps quality.

    A model has kept its quality if the quality is at least ``KEPT_SHARE`` of the target's. The bisection assumes that
    the quality falls along the line. The result is at most 1/32 below the last such position.

    The quality is ``agreement``. If the target's ``agreement`` is below ``MIN_AGREEMENT``, the quality is instead
    ``exp(-loss)``, the mean likelihood of a token.

    Args:
        evaluate: function that returns the measurements of the model at a position. The function is called at 0 and at
            up to ``HALVINGS`` other positions.
        last: the measurements at position 1.
    """
    target = evaluate(0.0)
    uses_agreement = target.agreement >= MIN_AGREEMENT

    def keeps_quality(model: Quality) -> bool:
        if uses_agreement:
            return model.agreement >= KEPT_SHARE * target.agreement
        return math.exp(-model.loss) >= KEPT_SHARE * math.exp(-target.loss)

    if keeps_quality(last):
        return 1.0
    kept, lost = 0.0, 1.0
    for _ in range(HALVINGS):
        position = (kept + lost) / 2.0
        if keeps_quality(evaluate(position)):
            kept = position
        else:
            lost = position
    return kept
