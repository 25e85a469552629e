"""The result of measuring a model: the losses, the metrics, and the per-item values behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trainables.metrics.registry import METRICS

ItemLog: TypeAlias = dict[str, dict[str, object]]
"""Per-item values by evaluation set and column, as plain JSON values; see :mod:`trainables.scoring.item_log`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The chosen metrics of a model, the per-item values behind them, and the seconds spent generating answers."""

    metrics: Mapping[str, float]
    items: ItemLog
    generation_seconds: float


def generated_answers(items: ItemLog) -> ItemLog:
    """Return the columns of generated text only."""
    name = "generated_text"
    return {part: {name: columns[name]} for part, columns in items.items() if name in columns}


def values_of(names: Iterable[str], scores: object) -> dict[str, float]:
    """Return the metrics called ``names``, in that order, from the per-item values in ``scores``."""
    return {name: float(METRICS[name].measure(scores)) for name in names}
