"""From the acceptable models, select the model to recommend.

The selected model answers fluently, and no other model beats it. If a threshold states how much must be forgotten, the
model that keeps most is selected, because forgetting more than required has no advantage. Otherwise, the model nearest
to the ideal corner is selected.

Models are compared by the *cost* of each score; a smaller cost is better. The cost of a retain loss is the loss in
nats. The cost of any other score is the score divided by its range, with a minus sign if larger scores are better. A
difference in cost of at most :data:`TOLERANCE` counts as noise. This is 2% of the range of a score, or 0.02 nats of a
retain loss (2% of a token's probability).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.frontier.assessment import FORGETTING, Assessment
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Mask, Objective
from analysis.tables.trial_table import numbers

TOLERANCE = 0.02
"""The largest difference in cost between two models that counts as noise."""


class Decision(StrEnum):
    """The criterion that selected the model, after repetitive and beaten models were left out."""

    ONLY = "only one left"
    KEEPING = "keeps most"
    TRADE_OFF = "nearest to the ideal corner"
    FLUENCY = "less repetition in forget answers"


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected model, and how many of the acceptable models were left out for each reason.

    Attributes:
        place: the position of the selected model in the rows.
        decision: the criterion that selected the model, after the other models were left out.
        eligible: the number of acceptable models.
        repeating: the number of models left out because their answers on the retain set are repetitive.
        unmeasured: the number of models left out because another model has fewer unknown checks.
        beaten: the number of models left out because another model beats them.
    """

    place: int
    decision: Decision
    eligible: int
    repeating: int
    unmeasured: int
    beaten: int

    def to_dict(self) -> dict[str, object]:
        """Return the selection in the form in which pareto.json stores it (``answer.selection``)."""
        return {name: value for name, value in asdict(self).items() if name != "place"}


def select(
    rows: pd.DataFrame,
    acceptable: Sequence[int],
    found: Sequence[Assessment],
    distance: Sequence[tuple[float, float]],
    objectives: Sequence[Objective],
    columns: Columns,
) -> Selection | None:
    """Select one of the rows at the positions ``acceptable``; return None if all answer the retain set repetitively.

    First, models with repetitive answers on the retain set are left out. Second, only the models with the fewest
    unknown checks (:attr:`Assessment.unknowns`) are kept. Third, models that another model beats are left out. Each
    remaining model has a cost: the cost of the primary metric of the retain set (:func:`_keeping`), or the distance
    from the ideal corner if the metric cannot be used. Fourth, models are kept if their cost is within the tolerance of
    the smallest cost. Fifth, models are kept if their repetition in forget answers is within the tolerance of the least
    repetition. Of these models, the model nearest to the ideal corner is selected. ``distance`` has a pair for each
    row: the distance from the ideal corner, and a number that breaks ties.
    """
    fluent = [i for i in acceptable if found[i].repeats is not True]
    if not fluent:
        return None
    least = min(found[i].unknowns for i in fluent)
    known = [i for i in fluent if found[i].unknowns == least]
    beaten = beaten_rows(_costs(rows.iloc[known], objectives, columns))
    remaining = [i for i, is_beaten in zip(known, beaten, strict=True) if not is_beaten]
    keeping = _keeping(rows.iloc[remaining], [found[i] for i in remaining], columns)
    cost = dict(zip(remaining, [distance[i][0] for i in remaining] if keeping is None else keeping, strict=True))
    best = min(cost.values()) + TOLERANCE
    near = [i for i in remaining if cost[i] <= best]
    calm = min(found[i].forget_repetition for i in near) + TOLERANCE
    place = min((i for i in near if found[i].forget_repetition <= calm), key=distance.__getitem__)
    usual = min(near, key=distance.__getitem__)
    decision = Decision.TRADE_OFF if keeping is None else Decision.KEEPING
    return Selection(
        place,
        Decision.ONLY if len(remaining) == 1 else decision if place == usual else Decision.FLUENCY,
        eligible=len(acceptable),
        repeating=len(acceptable) - len(fluent),
        unmeasured=len(fluent) - len(known),
        beaten=int(beaten.sum()),
    )


def beaten_rows(costs: Floats) -> Mask:
    """Return a mask, shape (n,), of the models that another model beats. ``costs`` has the shape (n, scores).

    The cost of an unmeasured score is NaN. Model A beats model B if three conditions hold: every score measured for B
    was also measured for A; no cost of A exceeds B's cost by more than the tolerance; at least one cost of A is below
    B's cost by more than the tolerance. Models can beat each other in a cycle. If every model is beaten, the model with
    the smallest sum of costs counts as not beaten.
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


def _keeping(rows: pd.DataFrame, found: Sequence[Assessment], columns: Columns) -> Sequence[float] | None:
    """Return the cost of the primary metric of the retain set for each row. Return None if a value is missing. Also
    return None if no threshold decides forgetting, because then a model that forgets nothing would be best."""
    measured = [name for name in columns.metrics if np.isfinite(numbers(rows, name)).all()]
    scores = [
        item
        for name in columns.primaries(measured)
        if columns[name].of == "retain"
        if (item := columns.objective(name))
    ]
    if not scores or not all(FORGETTING in item.decided for item in found):
        return None
    return tuple(scores[0].cost(numbers(rows, scores[0].column).to_numpy(dtype=np.float64)))


def _costs(rows: pd.DataFrame, objectives: Sequence[Objective], columns: Columns) -> Floats:
    """Return the costs by which models are compared, shape (rows, scores); the cost of an unmeasured score is NaN.

    The scores are the objectives, the losses, and the metrics with a direction. A loss is left out if another loss on
    the same data set, such as the capped loss, is an objective.
    """
    compared = {item.column: item for item in objectives}
    covered = {columns[name].of for name in compared if columns.is_loss(name)}
    for name in (*(name for name in columns.losses if columns[name].of not in covered), *columns.metrics):
        if (score := columns.objective(name)) is not None:
            compared.setdefault(name, score)
    costs = np.full((len(rows), len(compared)), np.nan)
    for index, (name, score) in enumerate(compared.items()):
        values = numbers(rows, name).to_numpy(dtype=np.float64)
        in_nats = columns.is_loss(name) and columns[name].of == "retain"
        known = np.isfinite(values)
        costs[known, index] = score.oriented(score.clip(values[known])) / (1.0 if in_nats else score.high - score.low)
    return costs
