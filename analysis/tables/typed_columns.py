"""From the text of a CSV to numbers, truth values and text, column by column."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.tables.csv_rows import CsvRows

_TRUTH = {"True": True, "False": False}


def typed_frame(path: Path, content: CsvRows, *, text: Collection[str], numeric: Collection[str]) -> pd.DataFrame:
    """The table of ``content``. An empty cell is NaN in a column of numbers and "" in a column of text.

    Columns in ``text`` stay text, also where they look like numbers (a trial "00007"); columns in ``numeric`` must
    hold numbers; any other column holds numbers or truth values if all its cells do, else text.

    Raises:
        AnalysisError: a cell of a numeric column is no number; says where.
    """
    columns: dict[str, pd.Series] = {}
    for name in content.columns:
        cells = content.column(name)
        if name in numeric:
            for row, cell in zip(content.rows, cells, strict=True):
                if _number(cell) is None:
                    raise AnalysisError(f"{path}, line {row.line}: {name} is '{cell}', expected a number or nothing")
        columns[name] = _series(cells, as_text=name in text)
    return pd.DataFrame(columns)


def _series(cells: list[str], *, as_text: bool) -> pd.Series:
    if as_text:
        return pd.Series(cells, dtype=object)
    numbers = [_number(cell) for cell in cells]
    if all(number is not None for number in numbers):
        # Up to 15 digits a float holds every whole number exactly.
        whole = cells and all(cell.lstrip("-").isdecimal() and len(cell) <= 15 for cell in cells)
        return pd.Series(numbers, dtype="int64" if whole else "float64")
    if all(cell in _TRUTH for cell in cells):
        return pd.Series([_TRUTH[cell] for cell in cells], dtype=bool)
    return pd.Series(cells, dtype=object)


def _number(cell: str) -> float | None:
    """The number a cell holds, NaN for an empty one, None for anything else."""
    if not cell:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None
