"""The objectives of the trade-off: their columns, directions, and bounds (fixed before the sweep started)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import AnalysisError
from search_spaces.messages import found_instead

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A column of trials.csv to be minimized ("min") or maximized ("max").

    ``low`` and ``high`` come from the metric (losses: 0 and ln|V|; ROUGE: 0 and 1), not from the trials, so that
    hypervolumes are comparable across sweeps. ``label`` is the axis label, with the unit. If ``log`` is true, costs are
    linear in the logarithm of the value.
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
            raise AnalysisError(f"objective {self.name}: the bounds {self.low:g} and {self.high:g} are not low < high")
        if self.log and self.low <= 0:
            raise AnalysisError(f"objective {self.name}: a logarithmic scale needs a bound above 0, got {self.low:g}")

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Objective:
        """Parse an entry of ``objectives`` in sweep.json; ``column`` and ``label`` default to the name.

        Raises:
            AnalysisError: a key is missing or a value has the wrong type.
        """
        try:
            name = str(values["name"])
            low, high = (float(str(values[bound])) for bound in ("low", "high"))
            direction = str(values["direction"])
        except KeyError as error:
            raise AnalysisError(f"an objective in sweep.json has no {error}: {dict(values)}") from None
        except ValueError:
            raise AnalysisError(f"an objective in sweep.json has bounds that are no numbers: {dict(values)}") from None
        column, label = str(values.get("column") or name), str(values.get("label") or name)
        return cls(name=name, column=column, direction=direction, low=low, high=high, label=label)

    @property
    def worst(self) -> float:
        """The worse bound, which is the reference point of the hypervolume."""
        return self.high if self.direction == "min" else self.low

    def clip(self, values: npt.ArrayLike) -> Floats:
        """Return ``values`` clipped to the bounds."""
        return np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)

    def cost(self, values: npt.ArrayLike) -> Floats:
        """Return ``values`` clipped and scaled to [0, 1]: 0 at the better bound, 1 at the worse bound."""
        if self.log:
            share = np.clip(np.log(self.clip(values) / self.low) / math.log(self.high / self.low), 0.0, 1.0)
        else:
            share = (self.clip(values) - self.low) / (self.high - self.low)
        return share if self.direction == "min" else 1.0 - share

    def oriented(self, values: npt.ArrayLike) -> Floats:
        """Return ``values`` with the sign that makes smaller better. They are not scaled, rounded or clipped."""
        array = np.asarray(values, dtype=np.float64)
        return array if self.direction == "min" else -array


def widest(boxes: Sequence[Sequence[Objective]]) -> tuple[Objective, ...]:
    """Return the smallest box that contains all ``boxes``, in which all trials of one problem are scored.

    Trials of different problems are never scored in one box, because ln|V| depends on the model.
    """
    return tuple(
        replace(same[0], low=min(item.low for item in same), high=max(item.high for item in same))
        for same in zip(*boxes, strict=True)
    )


def values_of(rows: pd.DataFrame, objectives: Sequence[Objective]) -> Floats:
    """Return the measured objectives of rows of a trial table, shape (rows, objectives); missing values are NaN.

    Raises:
        AnalysisError: the column of an objective is missing or contains text.
    """
    if rows.empty:
        return np.empty((0, len(objectives)))
    for objective in objectives:
        if objective.column not in rows.columns:
            there = found_instead([objective.column], rows.columns)
            raise AnalysisError(
                f"trials.csv has no column {objective.column} for the objective {objective.name}: {there}"
            )
        if not pd.api.types.is_numeric_dtype(rows[objective.column]):
            raise AnalysisError(f"the objective {objective.name} needs numbers in the column {objective.column}")
    return np.column_stack([rows[objective.column].to_numpy(dtype=np.float64) for objective in objectives])


def measured(values: Floats) -> Mask:
    """Return whether all values in each row are finite, shape (rows,); ``values`` has the shape (rows, objectives)."""
    return np.asarray(np.isfinite(values).all(axis=1), dtype=bool)


def scored(rows: pd.DataFrame, objectives: Sequence[Objective]) -> tuple[Mask, Floats]:
    """Return which rows are finished trials with all objectives, shape (rows,), and their costs.

    The costs have the shape (rows, objectives) and are NaN for all other rows. If there are no objectives, because the
    sweep is still making its target, no row is scored.

    Raises:
        AnalysisError: as :func:`values_of`.
    """
    costs = np.full((len(rows), len(objectives)), np.nan)
    if rows.empty or not objectives:
        return np.zeros(len(rows), dtype=bool), costs
    values = values_of(rows, objectives)
    known = (rows["status"] == "finished").to_numpy(dtype=bool) & measured(values)
    costs[known] = costs_of(values[known], objectives)
    return known, costs


def costs_of(values: Floats, objectives: Sequence[Objective]) -> Floats:
    """Return the costs in [0, 1] of measured ``values``; both have the shape (points, objectives)."""
    return np.column_stack([item.cost(column) for item, column in zip(objectives, values.T, strict=True)])
