"""Read the complete rows of a CSV file, even while another process appends to it, and convert the cells."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pandas as pd

from analysis.errors import AnalysisError
from search_spaces.common.durable import complete_lines
from search_spaces.common.messages import columns_hint

_TEXT = frozenset(
    {"trial_id", "spec_hash", "target_key", "model", "dataset", "method", "auto_lr", "status", "checkpoint", "error"}
    | {"name", "fallback", "phase", "confirms", "merges", "merge_checkpoint"}
)
"""Columns that are always text, even if their cells are empty or look like numbers (the trial id "00007")."""
_PATHS = ("trial_id", "checkpoint")
"""Columns that contain paths. Each path must be inside the table's folder."""
_BOOLEANS = {"True": True, "False": False}


def read_rows(path: Path, *, required: Sequence[str], growing: bool = True) -> tuple[pd.DataFrame, bool]:
    """Read every complete record of a CSV file. Also return whether an incomplete last line was left out.

    All cells are text. The index of the data frame is the number of the line on which each record starts; the header is
    line 1. For a missing or empty file, the result has the required columns and no rows.

    Args:
        required: the columns that the header must have.
        growing: whether another process may be appending to the file. If so, a last line without a newline is left out.

    Raises:
        AnalysisError: the file is not UTF-8 CSV, a required column is missing, a column is repeated, a record does not
            have as many cells as the header, or a trial id or checkpoint path leads out of the table's folder.
    """
    data = path.read_bytes() if path.is_file() else b""
    content = complete_lines(data) if growing else data
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AnalysisError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    if (zero_index := text.find("\0")) >= 0:
        line = text.count("\n", 0, zero_index) + 1
        raise AnalysisError(f"{path}, line {line}: the line contains zero bytes, probably because a disk lost data")
    is_torn = len(content) < len(data)
    records: dict[int, list[str]] = {}
    reader, line = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True), 1
    try:
        for cells in reader:
            if cells:
                records[line] = cells
            line = reader.line_num + 1
    except csv.Error as error:
        reason = "a quotation mark is never closed" if "unexpected end of data" in str(error) else error
        raise AnalysisError(f"{path}, line {line}: the file is not valid CSV: {reason}") from None
    if not records:
        return pd.DataFrame(columns=list(required), dtype=object), is_torn
    columns = next(iter(records.values()))
    if missing := [name for name in required if name not in columns]:
        form = "; expected commas between the columns, and points in numbers" if len(columns) == 1 else ""
        raise AnalysisError(f"{path} lacks the {_column_list(missing)}: {columns_hint(missing, columns)}{form}")
    if repeated := sorted({name for name in columns if columns.count(name) > 1}):
        raise AnalysisError(f"{path} has the {_column_list(repeated)} twice")
    lines = list(records)[1:]
    for line in lines:
        if len(records[line]) != len(columns):
            raise AnalysisError(
                f"{path}, line {line}: found {len(records[line])} cells, expected {len(columns)} as in the header"
            )
    frame = pd.DataFrame([records[line] for line in lines], lines, columns, dtype=object)
    for name in [name for name in _PATHS if name in columns]:
        for start, cell in frame[name].items():
            if _leads_out(PurePosixPath(cell)) or _leads_out(PureWindowsPath(cell)):
                raise AnalysisError(f"{path}, line {start}: {name} is '{cell}', which leads out of the table's folder")
    return frame, is_torn


def _column_list(names: Sequence[str]) -> str:
    return f"{'column' if len(names) == 1 else 'columns'} {', '.join(names)}"


def _leads_out(path: PurePath) -> bool:
    return path.is_absolute() or ".." in path.parts


def typed_frame(path: Path, cells: pd.DataFrame, *, is_number: Callable[[str], bool]) -> pd.DataFrame:
    """Convert the text cells from :func:`read_rows` to columns of numbers, booleans or text.

    Empty cells become NaN in numeric columns, and "" in text columns. Hashes and ids that consist of digits, such as
    "0007", stay text.

    Args:
        is_number: function that takes the name of a column and returns whether all its cells must be numbers or empty.

    Raises:
        AnalysisError: a cell in a numeric column is not a number.
    """
    columns: dict[str, pd.Series] = {}
    for name, texts in cells.items():
        numbers = list(map(_number, texts))
        numeric = is_number(str(name))
        if numeric and None in numbers:
            line, cell = cells.index[numbers.index(None)], texts.iloc[numbers.index(None)]
            raise AnalysisError(f"{path}, line {line}: {name} is '{cell}', expected a number or an empty cell")
        is_text = name in _TEXT or (not numeric and any(re.fullmatch(r"0\d+|\d{16,}", cell) for cell in texts))
        if not is_text and None not in numbers:
            # A float represents every whole number of up to 15 digits exactly.
            is_integer = numbers and all(cell.lstrip("-").isdecimal() and len(cell) <= 15 for cell in texts)
            columns[str(name)] = pd.Series(numbers, dtype="int64" if is_integer else "float64")
        elif not is_text and all(cell in _BOOLEANS for cell in texts):
            columns[str(name)] = pd.Series([_BOOLEANS[cell] for cell in texts], dtype=bool)
        else:
            columns[str(name)] = pd.Series(texts.to_list(), dtype=object)
    return pd.DataFrame(columns)


def _number(cell: str) -> float | None:
    if not cell:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None
