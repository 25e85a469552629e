"""The result of an evaluation: metrics, and the per-item values from which they were computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trainables.metrics.registry import METRICS

ItemLog: TypeAlias = dict[str, dict[str, object]]
"""The per-item values by evaluation set and column, as JSON values; see :mod:`trainables.scoring.item_log`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The chosen metrics of a model, the per-item values of these metrics, and the seconds of answer generation."""

    metrics: Mapping[str, float]
    items: ItemLog
    generation_seconds: float


def generated_answers(items: ItemLog) -> ItemLog:
    """Return only the columns with generated text."""
    name = "generated_text"
    return {part: {name: columns[name]} for part, columns in items.items() if name in columns}


def values_of(names: Iterable[str], scores: object) -> dict[str, float]:
    """Compute the metrics ``names``, in this order, from the per-item values in ``scores``."""
    return {name: float(METRICS[name].measure(scores)) for name in names}
