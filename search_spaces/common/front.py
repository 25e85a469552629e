"""Compute the Pareto front of evaluated epochs, with or without constraints.

Workers, the checkpoint manager, the search, the display and the analysis all use :func:`front`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from search_spaces.common.objective import Objective
from search_spaces.common.values import as_float
from search_spaces.constraint import Constraint


def front(
    values: ArrayLike, objectives: Sequence[Objective], *, violations: ArrayLike | None = None
) -> NDArray[np.bool_]:
    """Return a mask, shape (n,), of the points that no other point dominates. Equal points do not dominate each other.

    Points with NaN or infinite values are left out. They are not on the front, and do not dominate other points.

    Args:
        values: the values of the m objectives, shape (n, m).
        violations: how much each of k constraints is violated (:meth:`Constraint.violation`), shape (n, k). If given,
            points with a violation that is positive, infinite or NaN (unknown) are left out, too.
    """
    array = np.asarray(values, dtype=np.float64).reshape(-1, len(objectives))
    is_compared = np.isfinite(array).all(axis=1)
    if violations is not None and len(array):
        violation_array = np.asarray(violations, dtype=np.float64)
        is_compared &= (np.isfinite(violation_array) & (violation_array <= 0.0)).all(axis=1)
    is_on_front = np.zeros(len(array), dtype=bool)
    is_on_front[is_compared] = nondominated(oriented_of(array[is_compared], objectives))
    return is_on_front


def front_or_constrained_front(
    values: ArrayLike, objectives: Sequence[Objective], violations: ArrayLike
) -> NDArray[np.bool_]:
    """Return a mask, shape (n,), of the points on the front of all points, or on the front under the constraints.

    The models of these epochs are kept. For the arguments, see :func:`front`.
    """
    return front(values, objectives) | front(values, objectives, violations=violations)


def nondominated(points: ArrayLike) -> NDArray[np.bool_]:
    """Return a mask, shape (n,), of the points, shape (n, m), that no other point dominates.

    Smaller values are better. Equal points do not dominate each other.
    """
    import moocore

    array = np.asarray(points, dtype=np.float64)
    if len(array) == 0:
        return np.zeros(0, dtype=bool)
    return np.asarray(moocore.is_nondominated(array, keep_weakly=True), dtype=bool)


def oriented_of(values: NDArray[np.float64], objectives: Sequence[Objective]) -> NDArray[np.float64]:
    """Negate the values of maximized objectives, shape (points, objectives), so that smaller values are better."""
    return np.column_stack([item.oriented(column) for item, column in zip(objectives, values.T, strict=True)])


def violations_of(
    values: Mapping[Any, Any], constraints: Iterable[Constraint], baseline: Mapping[str, float]
) -> tuple[float, ...]:
    """Return by how much the metrics of an epoch violate each constraint; NaN if a metric is missing.

    ``baseline`` contains the metrics of the target model (the model before unlearning), for relative constraints.
    """
    violations = (item.violation(as_float(values.get(item.name)), baseline.get(item.name)) for item in constraints)
    return tuple(math.nan if violation is None else violation for violation in violations)


@dataclass(frozen=True, slots=True)
class Point:
    """The objective values and constraint violations of an evaluated epoch. NaN means that a value was not measured."""

    values: tuple[float, ...]
    violations: tuple[float, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether all values and violations are finite."""
        return all(map(math.isfinite, (*self.values, *self.violations)))

    @property
    def acceptable(self) -> bool:
        """Whether every constraint is satisfied."""
        return all(violation <= 0.0 for violation in self.violations)

    @property
    def total_violation(self) -> float:
        """The sum of the positive violations."""
        return sum(max(violation, 0.0) for violation in self.violations)


@dataclass(frozen=True, slots=True)
class Criteria:
    """The objectives and constraints by which a sweep compares epochs.

    ``baseline`` contains the metrics of the target model (the model before unlearning), for relative constraints.
    """

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    baseline: Mapping[str, float] = field(default_factory=dict)

    def point(self, values: Mapping[str, object]) -> Point:
        """Return the point of an epoch with these losses and metrics."""
        return Point(
            tuple(as_float(values.get(item.column)) for item in self.objectives),
            violations_of(values, self.constraints, self.baseline),
        )

    def on_front(self, points: Sequence[Point], *, constrained: bool) -> NDArray[np.bool_]:
        """Return a mask of the points on the front (:func:`front`). ``constrained`` applies the constraints."""
        violations = [point.violations for point in points] if constrained else None
        return front([point.values for point in points], self.objectives, violations=violations)

    def kept(self, points: Sequence[Point]) -> NDArray[np.bool_]:
        """Return a mask of the points whose models are kept (:func:`front_or_constrained_front`)."""
        values = [point.values for point in points]
        return front_or_constrained_front(values, self.objectives, [point.violations for point in points])
