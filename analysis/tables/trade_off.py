"""One axis of the trade-off: its column, its direction, and the bounds fixed before the sweep started."""

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
    """A column of trials.csv to be made small ("min") or large ("max").

    ``low`` and ``high`` come from the metric (losses: 0 and ln|V|; ROUGE: 0 and 1), not from the trials, so that
    hypervolumes compare across sweeps. ``label`` names it on an axis, with its unit. With ``log`` costs are linear in
    the logarithm.
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
        """An entry of ``objectives`` in sweep.json; ``column`` and ``label`` default to the name.

        Raises:
            AnalysisError: an entry is missing or of the wrong kind.
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
        """The bound that is the reference of the hypervolume."""
        return self.high if self.direction == "min" else self.low

    def clip(self, values: npt.ArrayLike) -> Floats:
        """``values`` moved onto the nearer bound if they lie outside."""
        return np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)

    def cost(self, values: npt.ArrayLike) -> Floats:
        """``values`` scaled to [0, 1]: 0 at the best bound, 1 at the worst; clipped outside."""
        if self.log:
            share = np.clip(np.log(self.clip(values) / self.low) / math.log(self.high / self.low), 0.0, 1.0)
        else:
            share = (self.clip(values) - self.low) / (self.high - self.low)
        return share if self.direction == "min" else 1.0 - share

    def oriented(self, values: npt.ArrayLike) -> Floats:
        """``values`` with the sign that makes smaller better: neither scaled, rounded nor clipped."""
        array = np.asarray(values, dtype=np.float64)
        return array if self.direction == "min" else -array


def widest(boxes: Sequence[Sequence[Objective]]) -> tuple[Objective, ...]:
    """The reference box in which trials of one problem are scored together: the same axes, each from the lowest to the
    highest of the bounds; () without boxes.

    Trials of different problems are never scored in one box: the ln|V| of one model does not apply to another.
    """
    return tuple(
        replace(same[0], low=min(item.low for item in same), high=max(item.high for item in same))
        for same in zip(*boxes, strict=True)
    )


def values_of(rows: pd.DataFrame, objectives: Sequence[Objective]) -> Floats:
    """The objectives of the rows of a trial table, shape (rows, objectives), as measured; NaN where missing.

    Raises:
        AnalysisError: the rows have no such column, or it holds text.
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
    """Whether each row of ``values``, shape (rows, objectives), has finite values only. Shape (rows,)."""
    return np.asarray(np.isfinite(values).all(axis=1), dtype=bool)


def scored(rows: pd.DataFrame, objectives: Sequence[Objective]) -> tuple[Mask, Floats]:
    """Which rows are finished trials with every objective, shape (rows,), and their costs, NaN for the others.

    Costs have the shape (rows, objectives). Without objectives (while the sweep is making its target) no row is scored.

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
    """Measured ``values``, shape (points, objectives), as costs in [0, 1] of the same shape."""
    return np.column_stack([item.cost(column) for item, column in zip(objectives, values.T, strict=True)])
