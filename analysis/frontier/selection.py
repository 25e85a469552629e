"""Which of several acceptable models to recommend: one that answers fluently and that no other model beats.

All comparisons use the *cost* of a score: the score in units of its range, or for a retain loss in nats, with the sign
that makes smaller better. :data:`TOLERANCE` is the largest difference in cost that counts as noise: 2% of the range of
a score, 0.02 nats of a retain loss (2% of a token's probability).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Mask, Objective
from analysis.tables.trial_table import finite_cell, numbers

TOLERANCE = 0.02
"""In cost: a smaller difference between two models is noise."""
REPETITION_MARGIN = 0.05
"""Retained answers may repeat themselves more than the target's by this share; a model beyond it is not fluent."""

Baseline = Callable[[pd.Series], Mapping[str, float]]


class Decision(StrEnum):
    """What decided between the models that are fluent and unbeaten."""

    ONLY = "only one left"
    TRADE_OFF = "nearest to the ideal corner"
    FLUENCY = "less repetition in forget answers"


@dataclass(frozen=True, slots=True)
class Selection:
    """How one of ``eligible`` acceptable models was selected.

    Attributes:
        place: its position in the rows.
        decision: what decided between the models left.
        eligible: the number of acceptable models.
        repeating: the number left out because their retained answers repeat themselves.
        unmeasured: the number left out because less of them was measured.
        beaten: the number left out because another model beats them.
    """

    place: int
    decision: Decision
    eligible: int
    repeating: int
    unmeasured: int
    beaten: int

    def to_dict(self) -> dict[str, object]:
        """The entry ``selection`` of pareto.json's answer."""
        names = ("decision", "eligible", "repeating", "unmeasured", "beaten")
        return {name: getattr(self, name) for name in names}


def select(
    rows: pd.DataFrame,
    acceptable: Sequence[int],
    *,
    preference: Callable[[int], tuple[float, ...]],
    distance: Sequence[tuple[float, float]],
    objectives: Sequence[Objective],
    columns: Columns,
    baseline_of: Baseline,
) -> Selection | None:
    """Select one of the rows at the positions ``acceptable``; None if the retained answers of all repeat themselves.

    Models whose retained answers repeat themselves are left out. Of the rest, those with the smallest ``preference``
    (how much of them is unknown) are compared: models that another one beats are left out, and the model with the
    smallest ``distance`` from the ideal corner, one pair per row (within the bounds, then beyond them), is taken. Among
    models whose distance is within the tolerance of the smallest, less repetition in forget answers decides first.
    """
    fluent = [place for place in acceptable if repeats(rows.iloc[place], columns, baseline_of) is not True]
    if not fluent:
        return None
    best = min(map(preference, fluent))
    known = [place for place in fluent if preference(place) == best]
    costs = _costs(rows.iloc[known], objectives, columns)
    beaten = beaten_rows(costs)
    left = [place for place, out in zip(known, beaten, strict=True) if not out]
    nearest = min(left, key=distance.__getitem__)
    near = [place for place in left if distance[place][0] <= distance[nearest][0] + TOLERANCE]
    repetition = {place: repetition_of(rows.iloc[place], columns, "forget") for place in near}
    calm = [place for place in near if repetition[place] <= min(repetition.values()) + TOLERANCE]
    place = min(calm, key=distance.__getitem__)
    decision = Decision.ONLY if len(left) == 1 else Decision.TRADE_OFF if place == nearest else Decision.FLUENCY
    return Selection(
        place,
        decision,
        eligible=len(acceptable),
        repeating=len(acceptable) - len(fluent),
        unmeasured=len(fluent) - len(known),
        beaten=int(beaten.sum()),
    )


def repetition_of(scores: Mapping[str, float] | pd.Series, columns: Columns, of: str) -> float:
    """The largest repetition score of a model's answers on the set ``of``; infinite if none was measured."""
    found = [float(scores[name]) for name in columns.repetition(of) if name in scores]
    return max(filter(np.isfinite, found), default=np.inf)


def repeats(row: pd.Series, columns: Columns, baseline_of: Baseline) -> bool | None:
    """Whether the model's retained answers repeat themselves more than the target's do, by the margin.

    None if repetition was not measured for the model or for the target.
    """
    before = baseline_of(row)
    changes = [
        value - before[name]
        for name in columns.repetition("retain")
        if name in before and (value := finite_cell(row, name)) is not None
    ]
    return max(changes) > REPETITION_MARGIN if changes else None


def scores_compared(rows: pd.DataFrame, objectives: Sequence[Objective], columns: Columns) -> tuple[Objective, ...]:
    """The scores in which models are compared: the objectives, the loss on each set, and every metric with a direction.

    The loss on a set is left out if another loss on the same set, such as the capped one, is an objective.
    """
    found = {item.column: item for item in objectives}
    covered = {columns[name].of for name in found if columns.is_loss(name)}
    names = [*(name for name in columns.losses if columns[name].of not in covered), *columns.metrics]
    for name in names:
        item = columns.objective(name)
        if item is not None and name not in found and np.isfinite(numbers(rows, name)).any():
            found[name] = item
    return tuple(found.values())


def beaten_rows(costs: Floats) -> Mask:
    """Which of n models another one beats; ``costs`` has shape (n, scores), NaN where a score was not measured.

    One model beats another if it was measured in every score in which the other was, is worse by more than the
    tolerance in none of them, and better by more than the tolerance in at least one. If every model is beaten (the
    relation can have cycles), the model with the smallest sum of costs stays.
    """
    n = len(costs)
    beats: Mask = np.zeros((n, n), dtype=bool)
    for other in range(n):
        shared = np.isfinite(costs[other])
        gain = costs[other, shared] - costs[:, shared]
        measured = np.isfinite(gain).all(axis=1)
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        if shared.any():
            beats[:, other] = measured & (gain >= -TOLERANCE).all(axis=1) & (gain > TOLERANCE).any(axis=1)
    beaten: Mask = np.asarray(beats.any(axis=0))
    if n and beaten.all():
        beaten[int(np.argmin(np.nansum(costs, axis=1)))] = False
    return beaten


def _costs(rows: pd.DataFrame, objectives: Sequence[Objective], columns: Columns) -> Floats:
    compared = scores_compared(rows, objectives, columns)
    found = np.full((len(rows), len(compared)), np.nan)
    for index, item in enumerate(compared):
        values = numbers(rows, item.column).to_numpy(dtype=np.float64)
        in_nats = columns.is_loss(item.column) and columns[item.column].of == "retain"
        unit = 1.0 if in_nats else item.high - item.low
        there = np.isfinite(values)
        found[there, index] = item.oriented(item.clip(values[there])) / unit
    return found
