"""Compute the Pareto front of a sweep, and choose for each trial the epoch whose values are reported to Optuna."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import hypervolume, nondominated
from analysis.tables.trade_off import Floats, costs_of
from search_spaces.common.objective import Objective
from search_spaces.common.values import as_float
from search_spaces.constraint import Constraint
from trainables.run.reports import Status

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Result:
    """The objective values and constraint violations of an epoch. A constraint is met if its violation is at most 0."""

    values: tuple[float, ...]
    violations: tuple[float, ...] = ()

    @property
    def acceptable(self) -> bool:
        """Whether every constraint is satisfied."""
        return all(violation <= 0.0 for violation in self.violations)

    @property
    def total_violation(self) -> float:
        """The sum of the positive violations."""
        return sum(max(violation, 0.0) for violation in self.violations)


class ParetoArchive:
    """The Pareto front of the epochs that satisfy all constraints.

    ``trace`` lists the hypervolume of the front after each added trial. A hypervolume lies between 0 and 1.

    Args:
        baseline: the metrics of the target model (the model before unlearning), for relative constraints.
        every_epoch: if true, every evaluated epoch of a trial can be on the front. If false, only the last epoch of a
            finished trial can be on the front.
    """

    def __init__(
        self,
        objectives: Sequence[Objective],
        *,
        constraints: Sequence[Constraint] = (),
        baseline: Mapping[str, float] | None = None,
        every_epoch: bool = True,
    ) -> None:
        self.objectives = tuple(objectives)
        self.constraints = tuple(constraints)
        self._baseline = dict(baseline or {})
        self._every_epoch = every_epoch
        self._front: Floats = np.empty((0, len(self.objectives)))
        self.trace: list[float] = []

    def add(self, row: Row, candidates: Sequence[Row] = ()) -> Result | None:
        """Add an ended trial. Return the result of one chosen epoch, or None if every epoch is ignored.

        Among the epochs that satisfy all constraints, the epoch that adds the most hypervolume to the current front is
        chosen. If no epoch satisfies all constraints, the epoch with the smallest sum of positive violations is chosen.
        Ties go to the later epoch. An epoch is ignored if an objective or a constrained metric is missing or infinite.

        Args:
            row: the trial's row in trials.csv.
            candidates: the trial's rows in candidates.csv, one for each evaluated epoch.
        """
        rows = list(candidates) if self._every_epoch else []
        if row.get("status") == Status.FINISHED:
            rows.append(row)
        all_results = [self.result(item) for item in rows]
        results = [result for result in all_results if result is not None]
        best = self._best(results)
        if acceptable := [result for result in results if result.acceptable]:
            points = np.vstack([self._front, self._costs(acceptable)])
            self._front = points[nondominated(points)]
        self.trace.append(hypervolume(self._front))
        return best

    def result(self, row: Row) -> Result | None:
        """Convert a row of trials.csv or candidates.csv to a result. Return None if a value is missing or infinite."""
        values = tuple(as_float(row.get(item.column)) for item in self.objectives)
        checks = [
            item.violation(as_float(row.get(item.name)), self._baseline.get(item.name)) for item in self.constraints
        ]
        violations = tuple(violation for violation in checks if violation is not None and math.isfinite(violation))
        if len(violations) < len(checks) or not all(math.isfinite(value) for value in values):
            return None
        return Result(values, violations)

    def _costs(self, results: Sequence[Result]) -> Floats:
        return costs_of(np.asarray([item.values for item in results]), self.objectives)

    def _best(self, results: Sequence[Result]) -> Result | None:
        acceptable = [result for result in results if result.acceptable]
        if not acceptable:
            return min(reversed(results), key=lambda result: result.total_violation, default=None)
        volumes = [hypervolume(np.vstack([self._front, costs])) for costs in self._costs(acceptable)]
        best_index = max(range(len(volumes)), key=lambda index: (volumes[index], index))
        return acceptable[best_index]
