"""What the trials of a sweep have attained so far, and by which of its epochs the sampler is told of a trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import hypervolume, nondominated
from analysis.tables.trade_off import Floats, Objective
from search_spaces.constraint import Constraint
from trainables.run.reports import Status

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Result:
    """An epoch: the objectives' values, and by how much each constraint is missed (0 or below: it is met)."""

    values: tuple[float, ...]
    violations: tuple[float, ...] = ()

    @property
    def acceptable(self) -> bool:
        """Whether every constraint is met."""
        return all(missed <= 0.0 for missed in self.violations)

    @property
    def missed(self) -> float:
        """By how much the constraints are missed in all."""
        return sum(max(missed, 0.0) for missed in self.violations)


class ParetoArchive:
    """The front of all acceptable epochs seen; ``trace`` has its hypervolume after each trial, in [0, 1]."""

    def __init__(
        self,
        objectives: Sequence[Objective],
        *,
        constraints: Sequence[Constraint] = (),
        baseline: Mapping[str, float] | None = None,
    ) -> None:
        self._objectives = tuple(objectives)
        self._constraints = tuple(constraints)
        self._baseline = dict(baseline or {})
        self._front: Floats = np.empty((0, len(self._objectives)))
        self.trace: list[float] = []

    def add(self, row: Row, candidates: Sequence[Row] = ()) -> Result | None:
        """Take in a trial that has ended, and say which of its epochs speaks for it.

        That is the one that adds most hypervolume to the front of the trials before, of equals the last; where none
        is acceptable, the one that misses the constraints least. Without ``candidates`` it is a finished trial's last.
        None for a trial without a finite value of every objective, or without a constraint's metric.
        """
        rows = [*candidates, row] if row.get("status") == Status.FINISHED else candidates
        results = [found for item in rows if (found := self.result(item)) is not None]
        chosen = self._chosen(results)
        if acceptable := [item for item in results if item.acceptable]:
            points = np.vstack([self._front, self._costs(acceptable)])
            self._front = points[nondominated(points)]
        self.trace.append(hypervolume(self._front))
        return chosen

    def result(self, row: Row) -> Result | None:
        """The epoch of a row of trials.csv or candidates.csv; None where something needed was not measured."""
        values = tuple(number(row.get(item.column)) for item in self._objectives)
        violations = [
            item.violation(number(row.get(item.name)), self._baseline.get(item.name)) for item in self._constraints
        ]
        known = tuple(missed for missed in violations if missed is not None and math.isfinite(missed))
        if len(known) < len(violations) or not all(map(math.isfinite, values)):
            return None
        return Result(values, known)

    def _chosen(self, results: Sequence[Result]) -> Result | None:
        acceptable = [item for item in results if item.acceptable]
        if len(acceptable) == 1:
            return acceptable[0]
        if not acceptable:
            return min(reversed(results), key=lambda item: item.missed, default=None)
        grown = [hypervolume(np.vstack([self._front, cost[None]])) for cost in self._costs(acceptable)]
        return acceptable[max(range(len(grown)), key=lambda index: (grown[index], index))]

    def _costs(self, results: Sequence[Result]) -> Floats:
        values = np.asarray([item.values for item in results]).T
        return np.column_stack([item.cost(column) for item, column in zip(self._objectives, values, strict=True)])


def number(value: object) -> float:
    """What a cell says, as a number; NaN where it says none."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
