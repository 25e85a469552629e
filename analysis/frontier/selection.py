"""Which of several acceptable models to recommend: one that answers fluently and that no other model beats.

All comparisons use the *cost* of a score: the score in units of its range, or for a retain loss in nats, with the sign
that makes smaller better. :data:`TOLERANCE` is the largest difference in cost that counts as noise: 2% of the range of
a score, 0.02 nats of a retain loss (2% of a token's probability).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.frontier.assessment import Assessment
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Mask, Objective
from analysis.tables.trial_table import numbers

TOLERANCE = 0.02
"""In cost: a smaller difference between two models is noise."""


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
    found: Sequence[Assessment],
    distance: Sequence[tuple[float, float]],
    objectives: Sequence[Objective],
    columns: Columns,
) -> Selection | None:
    """Select one of the rows at the positions ``acceptable``; None if the retained answers of all repeat themselves.

    Models whose retained answers repeat themselves are left out, then those about which more is unknown than about
    others, then those that another one beats. The rest go by ``distance`` from the ideal corner, one pair per row
    (within the bounds, then beyond them); among models within the tolerance of the nearest, less repetition in forget
    answers decides first.
    """
    fluent = [i for i in acceptable if found[i].repeats is not True]
    if not fluent:
        return None
    least = min(found[i].unknowns for i in fluent)
    known = [i for i in fluent if found[i].unknowns == least]
    beaten = beaten_rows(_costs(rows.iloc[known], objectives, columns))
    left = [i for i, out in zip(known, beaten, strict=True) if not out]
    nearest = min(left, key=distance.__getitem__)
    near = [i for i in left if distance[i][0] <= distance[nearest][0] + TOLERANCE]
    calm = min(found[i].forget_repetition for i in near) + TOLERANCE
    place = min((i for i in near if found[i].forget_repetition <= calm), key=distance.__getitem__)
    return Selection(
        place,
        Decision.ONLY if len(left) == 1 else Decision.TRADE_OFF if place == nearest else Decision.FLUENCY,
        eligible=len(acceptable),
        repeating=len(acceptable) - len(fluent),
        unmeasured=len(fluent) - len(known),
        beaten=int(beaten.sum()),
    )


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
