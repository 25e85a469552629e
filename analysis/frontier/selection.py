"""Select the model to recommend among the acceptable ones: it answers fluently, and no other model beats it.

All comparisons use the *cost* of a score, for which smaller is better: the score in units of its range, or a retain
loss in nats. :data:`TOLERANCE` is the largest difference in cost that counts as noise: 2% of the range of a score, or
0.02 nats of a retain loss (2% of a token's probability).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.frontier.assessment import Assessment
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Mask, Objective
from analysis.tables.trial_table import numbers

TOLERANCE = 0.02
"""The largest difference in cost between two models that counts as noise."""


class Decision(StrEnum):
    """The criterion that decided between the models that are fluent and not beaten."""

    ONLY = "only one left"
    TRADE_OFF = "nearest to the ideal corner"
    FLUENCY = "less repetition in forget answers"


@dataclass(frozen=True, slots=True)
class Selection:
    """How one of ``eligible`` acceptable models was selected.

    Attributes:
        place: the position of the selected model in the rows.
        decision: the criterion that decided between the remaining models.
        eligible: the number of acceptable models.
        repeating: the number of models left out because their answers on the retain set are repetitive.
        unmeasured: the number of models left out because fewer of their scores were measured.
        beaten: the number of models left out because another model beats them.
    """

    place: int
    decision: Decision
    eligible: int
    repeating: int
    unmeasured: int
    beaten: int

    def to_dict(self) -> dict[str, object]:
        """Return the entry ``selection`` of the answer in pareto.json."""
        return {name: value for name, value in asdict(self).items() if name != "place"}


def select(
    rows: pd.DataFrame,
    acceptable: Sequence[int],
    found: Sequence[Assessment],
    distance: Sequence[tuple[float, float]],
    objectives: Sequence[Objective],
    columns: Columns,
) -> Selection | None:
    """Select one of the rows at the positions ``acceptable``; None if all have repetitive answers on the retain set.

    Models with repetitive answers on the retain set are left out first, then models about which more is unknown than
    about others, then models that another model beats. Of the rest, the model with the smallest ``distance`` from the
    ideal corner is selected (a pair per row: within the bounds, and beyond them to break ties). If several models are
    within the tolerance of the nearest, only those with the least repetition in forget answers are considered.
    """
    fluent = [i for i in acceptable if found[i].repeats is not True]
    if not fluent:
        return None
    least = min(found[i].unknowns for i in fluent)
    known = [i for i in fluent if found[i].unknowns == least]
    beaten = beaten_rows(_costs(rows.iloc[known], objectives, columns))
    remaining = [i for i, is_beaten in zip(known, beaten, strict=True) if not is_beaten]
    nearest = min(remaining, key=distance.__getitem__)
    near = [i for i in remaining if distance[i][0] <= distance[nearest][0] + TOLERANCE]
    calm = min(found[i].forget_repetition for i in near) + TOLERANCE
    place = min((i for i in near if found[i].forget_repetition <= calm), key=distance.__getitem__)
    return Selection(
        place,
        Decision.ONLY if len(remaining) == 1 else Decision.TRADE_OFF if place == nearest else Decision.FLUENCY,
        eligible=len(acceptable),
        repeating=len(acceptable) - len(fluent),
        unmeasured=len(fluent) - len(known),
        beaten=int(beaten.sum()),
    )


def scores_compared(rows: pd.DataFrame, objectives: Sequence[Objective], columns: Columns) -> tuple[Objective, ...]:
    """Return the scores by which models are compared: objectives, the loss on each set, and metrics with a direction.

    The loss on a set is left out if another loss on the same set, such as the capped loss, is an objective.
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
    """Return which of n models are beaten by another; ``costs`` has shape (n, scores), NaN for unmeasured scores.

    Model A beats model B if A has all scores that B has, is worse by more than the tolerance in none of these scores,
    and is better by more than the tolerance in at least one. The relation can have cycles. If every model is beaten,
    the model with the smallest sum of costs counts as not beaten.
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
