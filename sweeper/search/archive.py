"""Compute the Pareto front of the ended trials, and choose for each trial the epoch that is reported to Optuna."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.tables.trade_off import Floats, costs_of
from search_spaces.common.front import Criteria, Point
from trainables.run.reports import Status

Row = Mapping[str, object]


class FrontSize(NamedTuple):
    """The number of epochs on a front, and the hypervolume of the same front, between 0 and 1."""

    epochs: int = 0
    hypervolume: float = 0.0


class ParetoArchive:
    """The Pareto front of the epochs of ended trials, without and with the constraints.

    Attributes:
        front: the size of the front of all epochs. The report of the ended trials has the same front.
        constrained_front: the size of the front of the epochs that satisfy all constraints.
        trace: the hypervolume of the constrained front after each added trial.

    Args:
        every_epoch: if true, every evaluated epoch of a trial can be on the front. If false, only the last epoch of a
            finished trial can be on the front.
    """

    def __init__(self, criteria: Criteria, *, every_epoch: bool = True) -> None:
        self.criteria = criteria
        self._every_epoch = every_epoch
        self._kept: list[Point] = []
        self._constrained_costs: Floats = np.empty((0, len(criteria.objectives)))
        self.front = FrontSize()
        self.constrained_front = FrontSize()
        self.trace: list[float] = []

    def add(self, row: Row, candidates: Sequence[Row] = ()) -> Point | None:
        """Add an ended trial. Return the point of one chosen epoch, or None if every epoch is ignored.

        Among the epochs that satisfy all constraints, the epoch that adds the most hypervolume to the current front of
        such epochs is chosen. If no epoch satisfies all constraints, the epoch with the smallest sum of positive
        violations is chosen. Ties go to the later epoch. An epoch is ignored if an objective or a constrained metric is
        missing or infinite.

        Args:
            row: the trial's row in trials.csv.
            candidates: the trial's rows in candidates.csv, one for each evaluated epoch.
        """
        rows = list(candidates) if self._every_epoch else []
        if row.get("status") == Status.FINISHED:
            rows[-1:] = [row]  # the row of a finished trial describes its last epoch
        points = [self.criteria.point(item) for item in rows]
        best = self._best([point for point in points if point.is_measured])
        self._extend(points)
        self.trace.append(self.constrained_front.hypervolume)
        return best

    def _extend(self, points: Sequence[Point]) -> None:
        self._kept = [*self._kept, *points]
        kept_mask = self.criteria.kept(self._kept)
        self._kept = [point for point, is_kept in zip(self._kept, kept_mask, strict=True) if is_kept]
        costs = self._costs(self._kept)
        all_costs, self._constrained_costs = (
            costs[self.criteria.on_front(self._kept, constrained=constrained)] for constrained in (False, True)
        )
        self.front = FrontSize(len(all_costs), hypervolume(all_costs))
        self.constrained_front = FrontSize(len(self._constrained_costs), hypervolume(self._constrained_costs))

    def _costs(self, points: Sequence[Point]) -> Floats:
        values = np.asarray([point.values for point in points]).reshape(-1, len(self.criteria.objectives))
        return costs_of(values, self.criteria.objectives)

    def _best(self, points: Sequence[Point]) -> Point | None:
        acceptable = [point for point in points if point.acceptable]
        if not acceptable:
            return min(reversed(points), key=lambda point: point.total_violation, default=None)
        volumes = [hypervolume(np.vstack([self._constrained_costs, costs])) for costs in self._costs(acceptable)]
        best_index = max(range(len(volumes)), key=lambda index: (volumes[index], index))
        return acceptable[best_index]
