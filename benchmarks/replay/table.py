"""A table of real trials with the results of every epoch, on which searches are replayed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.frontier.frontier import hypervolume, nondominated
from analysis.tables.trade_off import Floats, Objective
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space
from search_spaces.values import Value, same
from sweeper.search.archive import Row, number

FAR = 2.0
"""The distance of two values that are not on one scale: farther than the two ends of any range are."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded trial: its configuration, its status, and a row per epoch. If it diverged, the last row is empty."""

    trial_id: str
    config: Mapping[str, Value]
    status: str
    epochs: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """All recorded runs of one problem with one seed, their search space, and the objectives."""

    space: Space
    objectives: tuple[Objective, ...]
    runs: tuple[Run, ...]
    seed: int = 0

    @property
    def epochs(self) -> int:
        """Return the epochs of the longest run."""
        return max(len(run.epochs) for run in self.runs)

    @cached_property
    def all_epochs(self) -> int:
        """Return the number of epochs of the whole table."""
        return sum(len(run.epochs) for run in self.runs)

    def nearest(self, config: Mapping[str, object], among: Collection[int]) -> int:
        """Return the position of the run in ``among`` that is nearest to a configuration.

        Numbers are compared on the scale of the search
        space, as shares of their range. Runs with different methods are farther apart than runs with different rates.
        Ties go to the first run.
        """
        return min(sorted(among), key=lambda place: self.distance(config, self.runs[place].config))

    def distance(self, one: Mapping[str, object], other: Mapping[str, object]) -> float:
        """Return the distance of two configurations, which is 0 if they are equal."""
        parts = [
            _apart(item, one.get(name), other.get(name))
            for name, item in self._parameter_by_name.items()
            if name in one or name in other
        ]
        return math.sqrt(sum(part * part for part in parts))

    @cached_property
    def _parameter_by_name(self) -> dict[str, Parameter]:
        """One parameter per name. The options of a method have the same scale wherever they occur."""
        return {item.name: item for item in self.space.parameters}


def _apart(parameter: Parameter, one: object, other: object) -> float:
    if one is None or other is None:
        return 0.0 if one is other else FAR
    if isinstance(parameter, Choice) or not isinstance(one, int | float) or not isinstance(other, int | float):
        return 0.0 if same(one, other) else FAR
    ends = _scaled(parameter, parameter.high) - _scaled(parameter, parameter.low)
    return abs(_scaled(parameter, one) - _scaled(parameter, other)) / abs(ends)


def _scaled(parameter: Number, value: float) -> float:
    if parameter.log:
        return math.log(value)
    return math.log(1.0 - value) if parameter.log_to_one else value


@dataclass(frozen=True, eq=False)
class Yardstick:
    """The frontier of all epochs of all runs, and its hypervolume, with which a replayed search is compared."""

    objectives: tuple[Objective, ...]
    front: Floats
    volume: float

    @classmethod
    def of(cls, table: Table, objectives: Sequence[Objective] = ()) -> Yardstick:
        """Return the yardstick of a table; ``objectives`` replaces those of the search."""
        bare = cls(tuple(objectives) or table.objectives, np.empty((0, 0)), 0.0)
        rows = [row for run in table.runs for row in run.epochs]
        costs = [cost for row in rows if (cost := bare.costs(row)) is not None]
        points = np.unique(np.asarray(costs), axis=0) if costs else np.empty((0, len(bare.objectives)))
        front = points[nondominated(points)]
        return cls(bare.objectives, front, hypervolume(front))

    def costs(self, row: Row) -> Floats | None:
        """Return the costs of an epoch in [0, 1], or None if an objective was not measured or is not finite."""
        values = [number(row.get(item.column)) for item in self.objectives]
        if not all(map(math.isfinite, values)):
            return None
        return np.array([item.cost(value) for item, value in zip(self.objectives, values, strict=True)])
