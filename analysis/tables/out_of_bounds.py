"""Find impossible measurements: values outside the bounds of their columns, such as percentages instead of shares."""

from __future__ import annotations

import math

import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.trial_table import numbers

_ROUNDING = 1e-6


def values_outside(frame: pd.DataFrame, columns: Columns) -> list[Note]:
    """Return a note for every loss and metric with values outside its bounds in the rows of a trial table.

    The upper bound is ignored for losses (they may exceed the loss of a random guess) and for columns in percent.
    Missing and infinite values are ignored, and rounding errors are tolerated.
    """
    notes = []
    for name in columns.outcomes:
        low, high = _bounds(name, columns)
        values = numbers(frame, name)
        finite = values.abs() < math.inf
        beyond = finite & ((values < low - _ROUNDING) | (values > high + _ROUNDING))
        if beyond.any():
            # The values are probably shares written in percent.
            percent = (
                (low, high) == (0.0, 1.0) and values[beyond].between(1.0, 100.0).all() and values[beyond].max() > 2.0
            )
            first, trial_id = float(values[beyond].iloc[0]), frame.loc[beyond, "trial_id"].iloc[0]
            bounds = low, high if math.isfinite(high) else None
            facts = {
                "name": name,
                "value": first,
                "trial": trial_id,
                "count": int(beyond.sum()),
                "percent": bool(percent),
            }
            notes.append(note("value_out_of_bounds", **facts, bounds=bounds))
    return notes


def is_possible(value: float, name: str, columns: Columns) -> bool:
    """Return whether a measurement lies within the bounds of its column, apart from rounding errors."""
    low, high = _bounds(name, columns)
    return low - _ROUNDING <= value <= high + _ROUNDING


def _bounds(name: str, columns: Columns) -> tuple[float, float]:
    """Return the bounds of a measurement; a missing bound is infinite."""
    low, high = columns[name].bounds
    if high is None or columns.is_loss(name) or columns[name].unit == "percent":
        high = math.inf
    return -math.inf if low is None else low, high
