"""Find impossible measurements, such as percentages in a column whose values must lie in [0, 1]."""

from __future__ import annotations

import math

import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.trial_table import numbers

_ROUNDING = 1e-6


def values_outside(frame: pd.DataFrame, columns: Columns) -> list[Note]:
    """Return a note for each loss or metric that has values outside its bounds in a trial table.

    Infinite values count only in finished trials, because a diverged trial may have infinite losses.
    """
    notes = []
    for name in columns.outcomes:
        low, high = _bounds(name, columns)
        values = numbers(frame, name)
        infinite = values.abs() == math.inf
        outside = ~infinite & ((values < low - _ROUNDING) | (values > high + _ROUNDING))
        outside_rows = frame[outside | (infinite & (frame["status"] == "finished"))]
        values = values[outside_rows.index]
        if len(outside_rows):
            notes.append(
                note(
                    "value_out_of_bounds",
                    name=name,
                    value=float(values.iloc[0]),
                    trial=outside_rows["trial_id"].iloc[0],
                    count=len(outside_rows),
                    # The table probably has percentages instead of shares.
                    percent=bool((low, high) == (0, 1) and values.between(1, 100).all() and values.max() > 2),
                    bounds=(low, high if math.isfinite(high) else None),
                )
            )
    return notes


def is_possible(value: float, name: str, columns: Columns) -> bool:
    """Return whether a measurement lies within the bounds of its column."""
    low, high = _bounds(name, columns)
    return low - _ROUNDING <= value <= high + _ROUNDING


def _bounds(name: str, columns: Columns) -> tuple[float, float]:
    low, high = columns[name].bounds
    # A loss may exceed the loss of a random guess.
    if high is None or columns.is_loss(name) or columns[name].unit == "percent":
        high = math.inf
    return -math.inf if low is None else low, high
