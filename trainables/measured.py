"""What measuring a model gives: the metrics, and the per-item values they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

ItemLog: TypeAlias = dict[str, dict[str, object]]
"""Per-item values by evaluation set and column, as plain JSON values; see :mod:`trainables.item_log`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The chosen metrics of a model, the per-item values behind them, and how long generation took (seconds)."""

    metrics: Mapping[str, float]
    items: ItemLog
    generation_seconds: float
