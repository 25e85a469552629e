"""From the text of a CSV to numbers, truth values and text, column by column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.tables.csv_rows import CsvRows, read_rows

_TEXT = {"trial_id", "spec_hash", "model", "dataset", "method", "auto_lr", "status", "checkpoint", "error"} | {
    *("name", "fallback")
}
"""Columns that stay text, also where they look like numbers (a trial "00007") or are empty."""


def typed_log(path: Path, is_number: Callable[[str], bool]) -> pd.DataFrame:
    """The rows of a file with a column ``trial_id`` and a column ``step``; no rows while it is not there.

    Raises:
        AnalysisError: it cannot be read, or a cell of a numeric column is no number; says where.
    """
    required = ("trial_id", "step")
    rows = read_rows(path, required=required)
    return typed_frame(path, rows if rows.columns else CsvRows(required), is_number=is_number)


def typed_frame(path: Path, content: CsvRows, *, is_number: Callable[[str], bool]) -> pd.DataFrame:
    """The table of ``content``. An empty cell is NaN in a column of numbers and "" in a column of text.

    Columns that ``is_number`` must hold numbers; any other holds numbers or truth values if all its cells do, else
    text. A name made of digits, such as a hash or "0007", is text.

    Raises:
        AnalysisError: a cell of a numeric column is no number; says where.
    """
    columns: dict[str, pd.Series] = {}
    for index, name in enumerate(content.columns):
        cells = [row.cells[index] for row in content.rows]
        numeric = is_number(name)
        for row, cell in zip(content.rows, cells, strict=True):
            if numeric and _number(cell) is None:
                raise AnalysisError(f"{path}, line {row.line}: {name} is '{cell}', expected a number or nothing")
        named = not numeric and any(re.fullmatch(r"0\d+|\d{16,}", cell) for cell in cells)
        columns[name] = _series(cells, text=name in _TEXT or named)
    return pd.DataFrame(columns)


def _series(cells: list[str], *, text: bool) -> pd.Series:
    numbers = [] if text else [_number(cell) for cell in cells]
    if text or (None in numbers and not all(cell in ("True", "False") for cell in cells)):
        return pd.Series(cells, dtype=object)
    if None in numbers:
        return pd.Series([cell == "True" for cell in cells], dtype=bool)
    # Up to 15 digits a float holds every whole number exactly.
    whole = cells and all(cell.lstrip("-").isdecimal() and len(cell) <= 15 for cell in cells)
    return pd.Series(numbers, dtype="int64" if whole else "float64")


def _number(cell: str) -> float | None:
    """The number a cell holds, NaN for an empty one, None for anything else."""
    try:
        return float(cell or math.nan)
    except ValueError:
        return None
