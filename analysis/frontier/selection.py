"""Select the model to recommend from the acceptable models.

Good models are acceptable. If no model is good, models that miss no threshold are acceptable
(:func:`analysis.frontier.judgement.judge`).

If a threshold states how much must be forgotten, the model that keeps most is selected. Otherwise, the model nearest to
the ideal corner (cost 0 in all objectives) is selected.

A model *beats* another model by its costs (:func:`beaten_rows`); a smaller cost is better. For this comparison, the
cost of a retain loss is the loss in nats. The cost of any other score is the score divided by its range, negated if
larger scores are better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.frontier.assessment import FORGETTING, Assessment
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Mask
from analysis.tables.trial_table import numbers
from search_spaces.common.objective import Objective

TOLERANCE = 0.02
"""The largest difference in cost that counts as noise: 2% of the range of a score, or 0.02 nats of a retain loss."""


class Decision(StrEnum):
    """The criterion that selected the model."""

    ONLY = "only one left"
    KEEPING = "keeps most"
    TRADE_OFF = "nearest to the ideal corner"
    FLUENCY = "less repetition in forget answers"


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected model, and the number of acceptable models that each step of :func:`select` left out.

    Attributes:
        position: the position of the selected model's row.
        eligible: the number of acceptable models.
        repeating: the number of models left out because their answers on the retain set are repetitive.
        unmeasured: the number of models left out because another model has fewer unknown results.
        beaten: the number of models left out because another model beats them (:func:`beaten_rows`).
    """

    position: int
    decision: Decision
    eligible: int
    repeating: int
    unmeasured: int
    beaten: int

    def to_dict(self) -> dict[str, object]:
        """Return the entry ``answer.selection`` of pareto.json."""
        return {name: value for name, value in asdict(self).items() if name != "position"}


def select(
    rows: pd.DataFrame,
    acceptable: Sequence[int],
    assessments: Sequence[Assessment],
    distance: Sequence[tuple[float, float]],
    objectives: Sequence[Objective],
    columns: Columns,
) -> Selection | None:
    """Select one of the acceptable models; return None if all of them answer the retain set repetitively.

    1. Leave out models with repetitive answers on the retain set.
    2. Keep the models with the fewest unknown results (:attr:`Assessment.unknowns`).
    3. Leave out models that another model beats.
    4. Keep the models that keep most. If :func:`_keeping` returns None, keep the models nearest to the ideal corner.
    5. Keep the models with the least repetition in answers on the forget set.
    6. Select the model nearest to the ideal corner.

    Steps 4 and 5 ignore differences up to :data:`TOLERANCE`.

    Args:
        acceptable: the positions of the acceptable models in ``rows``.
        assessments: the comparison of each row's model with the thresholds.
        distance: a sort key for each row: the distance from the ideal corner, and a number that breaks ties.
    """
    fluent = [i for i in acceptable if assessments[i].repeats is not True]
    if not fluent:
        return None
    fewest = min(assessments[i].unknowns for i in fluent)
    best_known = [i for i in fluent if assessments[i].unknowns == fewest]
    beaten = beaten_rows(_costs(rows.iloc[best_known], objectives, columns))
    remaining = [i for i, is_beaten in zip(best_known, beaten, strict=True) if not is_beaten]
    keeping = _keeping(rows.iloc[remaining], [assessments[i] for i in remaining], columns)
    if keeping is None:
        cost = {i: distance[i][0] for i in remaining}
    else:
        cost = dict(zip(remaining, keeping, strict=True))
    max_cost = min(cost.values()) + TOLERANCE
    near_best = [i for i in remaining if cost[i] <= max_cost]
    limit = min(assessments[i].forget_repetition for i in near_best) + TOLERANCE
    least_repetitive = [i for i in near_best if assessments[i].forget_repetition <= limit]
    position = min(least_repetitive, key=distance.__getitem__)
    if len(remaining) == 1:
        decision = Decision.ONLY
    elif position != min(near_best, key=distance.__getitem__):
        decision = Decision.FLUENCY
    else:
        # Forgetting more than required has no advantage, so the model that keeps most is preferred.
        decision = Decision.TRADE_OFF if keeping is None else Decision.KEEPING
    return Selection(
        position,
        decision,
        eligible=len(acceptable),
        repeating=len(acceptable) - len(fluent),
        unmeasured=len(fluent) - len(best_known),
        beaten=int(beaten.sum()),
    )


def beaten_rows(costs: Floats) -> Mask:
    """Return a mask, shape (n,), of the models that another model beats.

    Model A beats model B if three conditions hold:

    - Every score measured for B was also measured for A.
    - No cost of A is above B's cost by more than :data:`TOLERANCE`.
    - At least one cost of A is below B's cost by more than :data:`TOLERANCE`.

    Args:
        costs: the costs of the models, shape (n, scores); NaN for unmeasured scores.
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
    # If models beat each other in a cycle, the model with the smallest sum of costs counts as not beaten.
    if n and beaten.all():
        beaten[int(np.argmin(np.nansum(costs, axis=1)))] = False
    return beaten


def _keeping(rows: pd.DataFrame, assessments: Sequence[Assessment], columns: Columns) -> Sequence[float] | None:
    """Return each row's cost in the primary retain metric; None if a row lacks it or has no decision on forgetting."""
    measured = [name for name in columns.metrics if np.isfinite(numbers(rows, name)).all()]
    retain_metrics = [name for name in columns.primaries(measured) if columns[name].of == "retain"]
    scores = [score for score in map(columns.objective, retain_metrics) if score is not None]
    # If no threshold decides forgetting, a model that forgets nothing would be best.
    if not scores or not all(FORGETTING in item.decided_sides for item in assessments):
        return None
    return tuple(scores[0].cost(numbers(rows, scores[0].column).to_numpy(dtype=np.float64)))


def _costs(rows: pd.DataFrame, objectives: Sequence[Objective], columns: Columns) -> Floats:
    """Return the costs by which models are compared, shape (rows, scores); NaN for unmeasured scores."""
    compared = {item.column: item for item in objectives}
    # A loss is left out if the capped loss on the same data set is an objective.
    covered = {columns[name].of for name in compared if columns.is_loss(name)}
    other_losses = [name for name in columns.losses if columns[name].of not in covered]
    for name in (*other_losses, *columns.metrics):
        if (score := columns.objective(name)) is not None:
            compared.setdefault(name, score)
    costs = np.full((len(rows), len(compared)), np.nan)
    for index, (name, score) in enumerate(compared.items()):
        values = numbers(rows, name).to_numpy(dtype=np.float64)
        in_nats = columns.is_loss(name) and columns[name].of == "retain"
        finite = np.isfinite(values)
        scale = 1.0 if in_nats else score.high - score.low
        costs[finite, index] = score.oriented(score.clip(values[finite])) / scale
    return costs
