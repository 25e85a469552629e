"""Read the complete rows of a CSV file, even while another process appends to it, and convert the cells."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

import pandas as pd

from analysis.errors import AnalysisError
from search_spaces.durable import whole_lines
from search_spaces.messages import found_instead

_TEXT = frozenset(
    {"trial_id", "spec_hash", "target_key", "model", "dataset", "method", "auto_lr", "status", "checkpoint", "error"}
    | {"name", "fallback"}
)
"""Columns that are always text, even if their cells are empty or look like numbers (the trial id "00007")."""
_PLACES = ("trial_id", "checkpoint")
"""Columns that contain paths. Each path must be inside the table's folder."""
_TRUTH = {"True": True, "False": False}


def read_rows(path: Path, *, required: Sequence[str], growing: bool = True) -> tuple[pd.DataFrame, bool]:
    """Read every complete record of the CSV file ``path``. Also return whether an incomplete last record was left out.

    All cells are text. The index of the data frame is the number of the line on which each record starts; the header is
    line 1. If the file has no header yet, the table has the ``required`` columns and no rows. If ``growing`` is true, a
    last line without a newline is left out, because the process that writes the file is still writing or was killed.
    Use ``growing=False`` for tables of other programs, which may end without a newline.

    Raises:
        AnalysisError: a required column is missing, a column is repeated, a record has more or fewer cells than the
            header, a path leads out of the table's folder, a quote is not closed before the last record, or the file is
            not UTF-8 CSV.
    """
    data = path.read_bytes() if path.is_file() else b""
    whole = whole_lines(data) if growing else data
    try:
        text = whole.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AnalysisError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    if (zero := text.find("\0")) >= 0:
        line = text.count("\n", 0, zero) + 1
        raise AnalysisError(f"{path}, line {line}: the line contains zero bytes, probably because a disk lost data")
    records, cut = _records(path, text)
    torn = cut or len(whole) < len(data)
    if not records:
        return pd.DataFrame(columns=list(required), dtype=object), torn
    columns = next(iter(records.values()))
    if lacking := [name for name in required if name not in columns]:
        named = f"column{'s' * (len(lacking) > 1)} {', '.join(lacking)}"
        raise AnalysisError(f"{path} lacks the {named}: {found_instead(lacking, columns)}")
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise AnalysisError(f"{path} has the column{'s' * (len(twice) > 1)} {', '.join(twice)} twice")
    lines = list(records)[1:]
    for line in lines:
        if len(records[line]) != len(columns):
            raise AnalysisError(
                f"{path}, line {line}: {len(records[line])} cells, expected {len(columns)} as in the header"
            )
    cells = pd.DataFrame([records[line] for line in lines], lines, columns, dtype=object)
    for name in filter(columns.__contains__, _PLACES):
        for start, cell in cells[name].items():
            if any(
                place.is_absolute() or ".." in place.parts for place in (PurePosixPath(cell), PureWindowsPath(cell))
            ):
                raise AnalysisError(f"{path}, line {start}: {name} is '{cell}', which leads out of the table's folder")
    return cells, torn


def _records(path: Path, text: str) -> tuple[dict[int, list[str]], bool]:
    """Return the records of a CSV text, keyed by their first line number, and whether the last record was left out.

    The last record is left out if it is incomplete, because the text ends inside a quoted cell.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    records: dict[int, list[str]] = {}
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return records, False
        except csv.Error as error:
            if "end of data" in str(error):
                # Only the last record may be incomplete, so no complete record may follow an open quote.
                size, behind = len(next(iter(records.values()), ())), text.splitlines()[line:]
                if size > 1 and any(len(next(csv.reader([other]), ())) == size for other in behind):
                    raise AnalysisError(
                        f"{path}, line {line}: not CSV: a quote is never closed, although more records follow"
                    ) from None
                return records, True
            raise AnalysisError(f"{path}, line {line}: not CSV: {error}") from None
        if cells:
            records[line] = cells


def typed_frame(path: Path, cells: pd.DataFrame, *, is_number: Callable[[str], bool]) -> pd.DataFrame:
    """Convert the text cells from :func:`read_rows`. Empty cells become NaN in numeric columns and "" in text columns.

    A column must be numeric if ``is_number`` returns true for its name. Any other column becomes numeric if all cells
    are numbers, boolean if all cells are booleans, and text otherwise. Hashes and ids that consist of digits, such as
    "0007", stay text.

    Raises:
        AnalysisError: a cell in a numeric column is not a number. The message names the line.
    """
    columns: dict[str, pd.Series] = {}
    for name, texts in cells.items():
        numbers = list(map(_number, texts))
        numeric = is_number(str(name))
        if numeric and None in numbers:
            line, cell = cells.index[numbers.index(None)], texts.iloc[numbers.index(None)]
            raise AnalysisError(f"{path}, line {line}: {name} is '{cell}', expected a number or an empty cell")
        named = name in _TEXT or (not numeric and any(re.fullmatch(r"0\d+|\d{16,}", cell) for cell in texts))
        if not named and None not in numbers:
            # A float represents every whole number of up to 15 digits exactly.
            whole = numbers and all(cell.lstrip("-").isdecimal() and len(cell) <= 15 for cell in texts)
            columns[str(name)] = pd.Series(numbers, dtype="int64" if whole else "float64")
        elif not named and all(cell in _TRUTH for cell in texts):
            columns[str(name)] = pd.Series([_TRUTH[cell] for cell in texts], dtype=bool)
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
