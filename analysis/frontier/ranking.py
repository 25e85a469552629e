"""Rank models: which of several models is the best, why, and which others cannot be told apart from it.

1. Models that miss a preferred requirement, such as that on loops in the answers to forget questions, are left out
   unless all models miss it. So are models with more unknown results than others.
2. Models that another model beats are left out: the other model is better in one score, and no score is worse.
3. The models that keep most remain, by the first score of the requirements on keeping. If all miss a preferred
   requirement, those with the best score in it remain. Of these, the models that forget most remain. If forgetting is
   not decided, the model nearest to the ideal corner (cost 0 in all objectives) is chosen.
4. The remaining models are *ties*. The tie that changes the target least is chosen, by the column with the mark
   ``tie_breaker`` or, without such a column, by the distance from the ideal corner.

Two scores differ only if their difference exceeds the noise, which is measured on the items
(:mod:`analysis.frontier.correction`). A score that a requirement on forgetting bounds has no noise: its items are the
facts to forget, not a sample of them, so a model that tells fewer of them is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pandas as pd

from analysis.frontier.criterion import Criterion, Judged, Role
from analysis.tables.trade_off import Floats, Mask, costs_of, measured, values_of
from analysis.tables.trial_table import numbers
from search_spaces.common.objective import Objective

TOLERANCE = 0.02
"""The noise of a score without values of the items: 2% of its range, or 0.02 nats of a retain loss."""
PREFERRED = "preferred"
"""The aspect of a requirement that is merely preferred. The aspect of other requirements is their role."""
ASPECTS = (str(Role.KEEP), PREFERRED, str(Role.FORGET))
"""The aspects by which the models that are not beaten are compared, in order."""
Noise = Mapping[str, Floats]
"""The noise of the difference between two models, shape (n, n), by column, in the unit of the column."""
NO_NOISE: Noise = MappingProxyType({})


class Decision(StrEnum):
    """Why a model was preferred to the other models that could be chosen."""

    ONLY = "only one left"
    KEEPING = "keeps most"
    NEAREST = "nearest to the ideal corner"
    LEAST_CHANGE = "changes the target least"
    CLOSEST = "closest to the bounds"
    CONFIRMED = "meets the criterion in all fresh runs"


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranks any of the models in a table with one row per model. Models are given by their positions in the table.

    Attributes:
        noise: the noise of each score that the items have. Without an entry, it is :data:`TOLERANCE`.
    """

    rows: pd.DataFrame
    criterion: Criterion
    objectives: Sequence[Objective]
    noise: Noise

    @cached_property
    def judged(self) -> Judged:
        """The comparison of all models with the requirements."""
        return self.criterion.judge(self.rows)

    @cached_property
    def distance(self) -> Sequence[tuple[float, float]]:
        """A sort key for each model: the distance from the ideal corner, and the sum of the unclipped costs.

        Both numbers are infinite if an objective is missing.
        """
        keys = np.full((len(self.rows), 2), np.inf)
        if self.objectives and len(self.rows):
            values = values_of(self.rows, self.objectives)
            is_measured = measured(values)
            keys[is_measured, 0] = np.linalg.norm(costs_of(values[is_measured], self.objectives), axis=1)
            # The unclipped sum breaks ties between rows outside the bounds.
            keys[is_measured, 1] = sum(
                item.oriented(values[is_measured, k]) / (item.high - item.low) for k, item in enumerate(self.objectives)
            )
        return [(distance, total) for distance, total in keys.tolist()]

    def best(self, positions: Sequence[int]) -> tuple[int, Decision, tuple[int, ...]]:
        """Return the best of the models, why it was preferred, and its ties."""
        judged = self.judged
        disliked = (judged.met[:, ~judged.required] == 0.0).sum(axis=1)
        unknown = np.isnan(judged.met[:, judged.required]).sum(axis=1)
        fewest = min((disliked[i], unknown[i]) for i in positions)
        remaining = [i for i in positions if (disliked[i], unknown[i]) == fewest]
        beaten = beaten_models(*self.differences(remaining))
        remaining = [i for i, is_beaten in zip(remaining, beaten, strict=True) if not is_beaten]
        if len(remaining) == 1:
            return remaining[0], Decision.ONLY, ()
        if not judged.shows(Role.FORGET)[remaining].all():
            # Without a result for forgetting, a model that forgets nothing would be best.
            return min(remaining, key=self.distance.__getitem__), Decision.NEAREST, ()
        ties = remaining
        for aspect in ASPECTS:
            if aspect != PREFERRED or fewest[0]:
                ties = self._near_best(aspect, ties)
        if len(ties) == 1:
            return ties[0], Decision.KEEPING, ()
        first = min(ties, key=self.change)
        return first, Decision.LEAST_CHANGE, tuple(i for i in ties if i != first)

    def order(self, positions: Sequence[int], count: int, *, groups: Sequence[int] | None = None) -> list[int]:
        """Return the best models in order, at most ``count``: at most one model of each group.

        Args:
            groups: the group of each model of the table; None if each model is a group of its own.
        """
        order: list[int] = []
        remaining = list(positions)
        groups = range(len(self.rows)) if groups is None else groups
        while remaining and len(order) < count:
            order.append(self.best(remaining)[0])
            remaining = [i for i in remaining if groups[i] != groups[order[-1]]]
        return order

    def closest(self, positions: Sequence[int]) -> list[int]:
        """Return the models in ascending order of the sum of their misses, those that lack required scores last."""
        missed = np.nan_to_num(self.judged.miss[:, self.judged.required]).sum(axis=1)
        untested = self.judged.untested
        return sorted(positions, key=lambda i: (untested[i], missed[i], self.distance[i]))

    def change(self, position: int) -> tuple[float, ...]:
        """A sort key: the change from the target by the tie-breaking column, if any, then the distance."""
        marked = [
            name for name, item in self.criterion.columns.entries.items() if (item.usable or {}).get("tie_breaker")
        ]
        values = [float(numbers(self.rows, name).iloc[position]) for name in marked]
        return (*(value if np.isfinite(value) else np.inf for value in values), *self.distance[position])

    def _near_best(self, aspect: str, positions: Sequence[int]) -> list[int]:
        """Return the models that the best one does not beat beyond the noise in the first score about the aspect.

        Scores that were not measured for all of the models are skipped.
        """
        for costs, noise in self.scores_about(aspect, positions):
            if np.isfinite(costs).all():
                best = int(costs.argmin())
                near = costs <= costs[best] + noise[best]
                return [i for i, is_near in zip(positions, near, strict=True) if is_near]
        return list(positions)

    def scores_about(self, aspect: str, positions: Sequence[int]) -> Iterator[tuple[Floats, Floats]]:
        """Yield the costs, shape (n,), and their noise, shape (n, n), of each requirement with this aspect."""
        columns = self.criterion.columns
        for item in self.criterion.requirements:
            about = PREFERRED if item.preferred else item.role
            if about == aspect and (score := columns.objective(item.column)) is not None:
                values = numbers(self.rows, item.column).to_numpy(dtype=np.float64)[list(positions)]
                yield score.oriented(values), self._noise(item.column, score.high - score.low, positions)

    def _noise(self, name: str, scale: float, positions: Sequence[int]) -> Floats:
        if name in self.noise and name in self._forgotten:
            return np.zeros((len(positions), len(positions)))
        if name in self.noise:
            noise = self.noise[name][np.ix_(positions, positions)]
            return np.where(np.isnan(noise), TOLERANCE * scale, noise)
        return np.full((len(positions), len(positions)), TOLERANCE * scale)

    @cached_property
    def _forgotten(self) -> frozenset[str]:
        """The scores that requirements on forgetting bound."""
        return frozenset(item.column for item in self.criterion.requirements if item.role is Role.FORGET)

    def differences(self, positions: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the scores by which models are compared, shape (scores, n), and their noise, shape (scores, n, n).

        Smaller scores are better, and NaN stands for an unmeasured score.
        """
        n = len(positions)
        scores = [(name, scale, values[positions]) for name, scale, values in self._scores]
        compared = [item for item in scores if np.isfinite(item[2]).any()]
        noise = np.array([self._noise(name, scale, positions) for name, scale, _ in compared])
        return np.array([values for *_, values in compared]).reshape(-1, n), noise.reshape(-1, n, n)

    @cached_property
    def _scores(self) -> list[tuple[str, float, Floats]]:
        """The scores by which models are compared: column, unit of the noise, and values, shape (models,).

        Smaller scores are better, and NaN stands for an unmeasured score. Scores without a bound are left out.
        """
        columns = self.criterion.columns
        compared = {item.column: item for item in self.objectives}
        # A loss is left out if the capped loss on the same data set is an objective.
        covered = {columns[name].of for name in compared if columns.is_loss(name)}
        other_losses = [name for name in columns.losses if columns[name].of not in covered]
        metrics = [name for name in columns.metrics if not (columns[name].descriptive or columns[name].attack)]
        for name in (*other_losses, *metrics):
            if (score := columns.objective(name)) is not None:
                compared.setdefault(name, score)
        scores = []
        for name, score in compared.items():
            values = numbers(self.rows, name).to_numpy(dtype=np.float64)
            # Differences of a retain loss count in nats, because its bound is far from useful models.
            scale = 1.0 if columns.is_loss(name) and columns[name].of == "retain" else score.high - score.low
            if (is_finite := np.isfinite(values)).any():
                scores.append((name, scale, np.where(is_finite, score.oriented(score.clip(values)), np.nan)))
        return scores


def beaten_models(scores: Floats, noise: Floats) -> Mask:
    """Return a mask, shape (n,), of the models that another model beats.

    Model A beats model B if three conditions hold:

    - Every score measured for B was also measured for A.
    - No score of A is worse than B's score by more than the noise.
    - At least one score of A is better than B's score by more than the noise.

    Args:
        scores: the scores of the models, shape (scores, n). Smaller scores are better, and NaN means not measured.
        noise: the noise of the difference between two models, shape (scores, n, n).
    """
    beaten: Mask = np.asarray(beats(scores, noise).any(axis=0))
    # If models beat each other in a cycle, the model with the smallest sum of scores counts as not beaten.
    if len(scores) and beaten.all():
        beaten[int(np.argmin(np.nansum(scores, axis=0)))] = False
    return beaten


def beats(scores: Floats, noise: Floats) -> Mask:
    """Return whether model A beats model B (:func:`beaten_models`), shape (A, B)."""
    n = scores.shape[1]
    not_worse, is_better = np.ones((n, n), dtype=bool), np.zeros((n, n), dtype=bool)
    for values, margin in zip(scores, noise, strict=True):
        gain = values[None, :] - values[:, None]  # (A, B): how much better A is
        is_known, is_needed = np.isfinite(gain), np.isfinite(values)[None, :]
        gain = np.where(is_known, gain, 0.0)
        not_worse &= (is_known | ~is_needed) & (gain >= -margin)
        is_better |= gain > margin
    return not_worse & is_better
