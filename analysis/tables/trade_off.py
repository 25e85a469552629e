"""The objectives of a sweep: their columns, directions and bounds.

The bounds of all objectives form the *reference box*. The bounds are fixed before the sweep starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from analysis.errors import AnalysisError
from search_spaces.common.messages import columns_hint

if TYPE_CHECKING:  # every command reads sweep.json, but only some commands read a table
    import pandas as pd

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A column of trials.csv to be minimized ("min") or maximized ("max").

    Attributes:
        low, high: the bounds of the metric, such as 0 and ln|V| for a loss. The bounds do not depend on the trials.
        label: the axis label, with the unit.
        log: whether the cost is linear in the logarithm of the value.
    """

    name: str
    column: str
    direction: str
    low: float
    high: float
    label: str
    log: bool = False

    def __post_init__(self) -> None:
        if self.direction not in ("min", "max"):
            raise AnalysisError(f"objective {self.name}: direction is '{self.direction}', expected min or max")
        if not -math.inf < self.low < self.high < math.inf:
            raise AnalysisError(
                f"objective {self.name}: expected finite bounds with low < high, got {self.low:g} and {self.high:g}"
            )
        if self.log and self.low <= 0:
            raise AnalysisError(
                f"objective {self.name}: a logarithmic scale needs a lower bound above 0, got {self.low:g}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Objective:
        """Parse one entry of ``objectives`` in sweep.json."""
        name = str(values["name"])
        return cls(
            name=name,
            column=str(values.get("column") or name),
            direction=str(values["direction"]),
            low=float(values["low"]),
            high=float(values["high"]),
            label=str(values.get("label") or name),
        )

    @property
    def worst(self) -> float:
        """The worse bound, which is the coordinate of the reference point."""
        return self.high if self.direction == "min" else self.low

    def clip(self, values: npt.ArrayLike) -> Floats:
        return np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)

    def cost(self, values: npt.ArrayLike) -> Floats:
        """Clip values and scale them to [0, 1]: 0 at the better bound, 1 at the worse bound."""
        if self.log:
            share = np.clip(np.log(self.clip(values) / self.low) / math.log(self.high / self.low), 0.0, 1.0)
        else:
            share = (self.clip(values) - self.low) / (self.high - self.low)
        return share if self.direction == "min" else 1.0 - share

    def oriented(self, values: npt.ArrayLike) -> Floats:
        """Negate the values of a maximized objective, so that smaller values are better."""
        array = np.asarray(values, dtype=np.float64)
        return array if self.direction == "min" else -array


def widest(boxes: Sequence[Sequence[Objective]]) -> tuple[Objective, ...]:
    """Return the smallest reference box that contains all boxes."""
    return tuple(
        replace(group[0], low=min(item.low for item in group), high=max(item.high for item in group))
        for group in zip(*boxes, strict=True)
    )


def values_of(rows: pd.DataFrame, objectives: Sequence[Objective]) -> Floats:
    """Return the values of the objectives in a trial table, shape (rows, objectives); missing values are NaN.

    Raises:
        AnalysisError: the column of an objective is missing or contains text.
    """
    from pandas.api.types import is_numeric_dtype

    if rows.empty:
        return np.empty((0, len(objectives)))
    for objective in objectives:
        if objective.column not in rows.columns:
            hint = columns_hint([objective.column], rows.columns)
            raise AnalysisError(
                f"trials.csv has no column {objective.column} for the objective {objective.name}: {hint}"
            )
        if not is_numeric_dtype(rows[objective.column]):
            raise AnalysisError(
                f"the column {objective.column} of the objective {objective.name} contains text, not numbers"
            )
    return np.column_stack([rows[objective.column].to_numpy(dtype=np.float64) for objective in objectives])


def measured(values: Floats) -> Mask:
    """Return a mask, shape (rows,), of the rows that contain only finite numbers."""
    return np.asarray(np.isfinite(values).all(axis=1), dtype=bool)


def scored(rows: pd.DataFrame, objectives: Sequence[Objective]) -> tuple[Mask, Floats]:
    """Return a mask of the finished trials with all objectives, shape (rows,), and costs, shape (rows, objectives).

    The costs of other trials are NaN. Without objectives, the mask is false for all rows.
    """
    costs = np.full((len(rows), len(objectives)), np.nan)
    if rows.empty or not objectives:
        return np.zeros(len(rows), dtype=bool), costs
    values = values_of(rows, objectives)
    is_scored = (rows["status"] == "finished").to_numpy(dtype=bool) & measured(values)
    costs[is_scored] = costs_of(values[is_scored], objectives)
    return is_scored, costs


def costs_of(values: Floats, objectives: Sequence[Objective]) -> Floats:
    """Return the costs in [0, 1] of measured values. Both arrays have the shape (points, objectives)."""
    return np.column_stack([item.cost(column) for item, column in zip(objectives, values.T, strict=True)])


def oriented_of(values: Floats, objectives: Sequence[Objective]) -> Floats:
    """Negate the values of maximized objectives, shape (points, objectives), so that smaller values are better."""
    return np.column_stack([item.oriented(column) for item, column in zip(objectives, values.T, strict=True)])
