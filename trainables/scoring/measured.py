"""What measuring a model gives: the losses, the metrics, and the per-item values they are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

ItemLosses: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Per item its summed loss (nats) and over how many supervised positions."""

ItemLog: TypeAlias = dict[str, dict[str, object]]
"""Per-item values by evaluation set and column, as plain JSON values; see :mod:`trainables.scoring.item_log`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The chosen metrics of a model, the per-item values behind them, and how long generation took (seconds)."""

    metrics: Mapping[str, float]
    items: ItemLog
    generation_seconds: float


def loss_columns(forget: ItemLosses, retain: ItemLosses, random_guess: float) -> dict[str, float]:
    """The losses reported after every epoch, means over all supervised positions of a set; NaN where one is not finite.

    ``forget_loss_capped`` is at most ``random_guess``: a loss of 40 or 500 is not "more forgotten" than a guess.
    """
    forget_loss, retain_loss = _mean(forget), _mean(retain)
    capped = min(forget_loss, random_guess) if math.isfinite(forget_loss) else forget_loss
    return {"forget_loss": forget_loss, "retain_loss": retain_loss, "forget_loss_capped": capped}


def _mean(losses: ItemLosses) -> float:
    totals, counts = losses
    return math.fsum(totals) / sum(counts) if all(map(math.isfinite, totals)) else math.nan
