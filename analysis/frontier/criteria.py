"""Whether a trial counts as successful unlearning, by the thresholds of arXiv:2410.22086."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Criterion:
    """A threshold on one metric: at most ``below`` (exclusive), or at least ``share`` of the No-unlearn model's."""

    column: str
    below: float | None = None
    share: float | None = None

    def words(self) -> str:
        """The threshold as a report prints it."""
        return f"below {self.below:g}" if self.below is not None else f"at least {self.share:.0%} of No-unlearn"

    def met(self, value: float | None, baseline: float | None) -> bool | None:
        """Whether ``value`` meets it; None where the value or the baseline it needs is missing."""
        if value is None or pd.isna(value):
            return None
        if self.below is not None:
            return value < self.below
        if self.share is None or baseline is None:
            return None
        return value >= self.share * baseline


CRITERIA = (
    Criterion("verbmem", below=0.1),
    Criterion("utility", share=0.7),
    Criterion("truth_ratio", share=0.7),
)


def meets_all(row: pd.Series, baseline: Mapping[str, float]) -> bool | None:
    """Whether a row of the trial table meets every criterion; None if one cannot be judged and none is missed."""
    verdicts = [item.met(row.get(item.column), baseline.get(item.column)) for item in CRITERIA]
    if False in verdicts:
        return False
    return None if None in verdicts else True
