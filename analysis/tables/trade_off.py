"""The values and costs of objectives in a table of trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from analysis.errors import AnalysisError
from search_spaces.common.messages import columns_hint
from search_spaces.common.objective import Objective

if TYPE_CHECKING:  # every command reads sweep.json, but only some commands read a table
    import pandas as pd

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


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
