"""The losses: cross-entropy on the forget set and on the retain sample, measured after every epoch."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from trainables.metrics.metric import LANGUAGE, VISION, Cost, Metric

ItemLosses: TypeAlias = tuple[Collection[float], Collection[float]]
"""Per item its summed loss (nats) and over how many supervised positions."""


@dataclass(frozen=True, slots=True, eq=False)
class SetLosses:
    """What the losses are made of; ``random_guess`` is the loss of a uniform guess, ``ln|V|``."""

    forget: ItemLosses
    retain: ItemLosses
    random_guess: float


def mean_loss(losses: ItemLosses) -> float:
    """The mean over all supervised positions of a set (nats); NaN where an item's is not finite."""
    totals, counts = losses
    return math.fsum(totals) / float(sum(counts)) if all(map(math.isfinite, totals)) else math.nan


def capped(loss: float, random_guess: float) -> float:
    """At most ``random_guess``, or NaN: a loss of 40 or 500 is not "more forgotten" than a guess."""
    return min(loss, random_guess) if math.isfinite(loss) else loss


_loss = partial(Metric, unit="nats per {item}", high=None, loss=True, modalities=(LANGUAGE, VISION), cost=Cost.FORWARD)
METRICS = (
    _loss(
        name="forget_loss",
        label="forget loss",
        direction="max",
        of="forget",
        formula="sum of -log p over the supervised tokens of the forget set / their number",
        citation="the paper's L_F; as an objective capped at ln|V|",
        measure=lambda losses: mean_loss(losses.forget),
        optimised_as="forget_loss_capped",
    ),
    _loss(
        name="retain_loss",
        label="retain loss",
        direction="min",
        of="retain",
        formula="the same on the fixed sample of the retain set",
        citation="the paper's L_R",
        measure=lambda losses: mean_loss(losses.retain),
    ),
    _loss(
        name="forget_loss_capped",
        label="forget loss",
        direction="max",
        of="forget",
        formula="min(forget_loss, ln|V|)",
        citation="the paper's L_F, as a search optimises it",
        measure=lambda losses: capped(mean_loss(losses.forget), losses.random_guess),
    ),
)
