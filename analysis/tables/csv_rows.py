"""Read the complete rows of a CSV file, even while another process appends to it, and convert the cells."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

import pandas as pd

from analysis.errors import AnalysisError
from search_spaces.durable import whole_lines
from search_spaces.messages import found_instead

_TEXT = frozenset(
    {"trial_id", "spec_hash", "target_key", "model", "dataset", "method", "auto_lr", "status", "checkpoint", "error"}
    | {"name", "fallback"}
)
"""Columns that stay text even if their cells are empty or look like numbers, such as the trial id "00007"."""
_PLACES = ("trial_id", "checkpoint")
"""Columns with paths of files or folders, which must be inside the folder of the table."""
_TRUTH = {"True": True, "False": False}


class CsvRow(NamedTuple):
    """One CSV record: the number of the line where the record starts (the header is line 1), and its cells."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvRows:
    """The header and the records of a CSV file. ``torn`` is true if an incomplete last record was left out."""

    columns: tuple[str, ...]
    rows: tuple[CsvRow, ...]
    torn: bool

    def records(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield, for each record, the number of its first line, and its cells keyed by column name."""
        return ((row.line, dict(zip(self.columns, row.cells, strict=True))) for row in self.rows)


def read_rows(path: Path, *, required: Sequence[str], growing: bool = True) -> CsvRows:
    """Return every complete record of the CSV file ``path``.

    If the file has no header yet, the result has the ``required`` columns and no rows. If ``growing`` is true, a last
    line without a newline is left out, because the process that writes the file is still writing or was killed. Use
    ``growing=False`` for tables of other programs, which may end without a newline.

    Raises:
        AnalysisError: a required column is missing, a column is repeated, a record has more or fewer cells than the
            header, a path leads out of the table's folder, a quote before the last record is not closed, or the file
            is not UTF-8 CSV.
    """
    data = path.read_bytes() if path.is_file() else b""
    whole = whole_lines(data) if growing else data
    try:
        text = whole.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AnalysisError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    if (zero := text.find("\0")) >= 0:
        line = text.count("\n", 0, zero) + 1
        raise AnalysisError(f"{path}, line {line}: contains zero bytes, probably because a disk lost written data")
    records, cut = _records(path, text)
    torn = cut or len(whole) < len(data)
    if not records:
        return CsvRows(tuple(required), (), torn)
    columns = records[0].cells
    if lacking := [name for name in required if name not in columns]:
        named = f"column{'s' * (len(lacking) > 1)} {', '.join(lacking)}"
        raise AnalysisError(f"{path} lacks the {named}: {found_instead(lacking, columns)}")
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise AnalysisError(f"{path} has the column{'s' * (len(twice) > 1)} {', '.join(twice)} twice")
    for row in records[1:]:
        if len(row.cells) != len(columns):
            raise AnalysisError(
                f"{path}, line {row.line}: {len(row.cells)} cells, expected {len(columns)} as in the header"
            )
        for name, cell in zip(columns, row.cells, strict=True):
            paths = (PurePosixPath(cell), PureWindowsPath(cell)) if name in _PLACES else ()
            if any(place.is_absolute() or ".." in place.parts for place in paths):
                raise AnalysisError(
                    f"{path}, line {row.line}: {name} is '{cell}', which leads out of the table's folder"
                )
    return CsvRows(columns, tuple(records[1:]), torn)


def _records(path: Path, text: str) -> tuple[list[CsvRow], bool]:
    """Return the records of a CSV text, and whether the text ends inside a quoted cell, so its last record is cut."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    records: list[CsvRow] = []
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return records, False
        except csv.Error as error:
            if "end of data" in str(error):
                _require_torn(path, text, line, cells=len(records[0].cells) if records else 0)
                return records, True
            raise AnalysisError(f"{path}, line {line}: not CSV: {error}") from None
        if cells:
            records.append(CsvRow(line, tuple(cells)))


def _require_torn(path: Path, text: str, line: int, *, cells: int) -> None:
    """Raise an error if complete records follow an open quote, because only the last record may be incomplete."""
    behind = text.splitlines()[line:]
    if cells > 1 and any(len(next(csv.reader([other]), ())) == cells for other in behind):
        raise AnalysisError(f"{path}, line {line}: not CSV: a quote is never closed, although more records follow")


def typed_frame(path: Path, content: CsvRows, *, is_number: Callable[[str], bool]) -> pd.DataFrame:
    """Convert CSV rows to a data frame. An empty cell becomes NaN in a numeric column and "" in a text column.

    A column must be numeric if ``is_number`` returns true for its name. Any other column becomes numeric or boolean if
    all its cells are; otherwise it is text. Hashes and ids that consist of digits, such as "0007", stay text.

    Raises:
        AnalysisError: a cell in a numeric column is not a number. The message names the line.
    """
    columns: dict[str, pd.Series] = {}
    for index, name in enumerate(content.columns):
        cells = [row.cells[index] for row in content.rows]
        numeric = is_number(name)
        for row, cell in zip(content.rows, cells, strict=True):
            if numeric and _number(cell) is None:
                raise AnalysisError(f"{path}, line {row.line}: {name} is '{cell}', expected a number or an empty cell")
        named = not numeric and any(re.fullmatch(r"0\d+|\d{16,}", cell) for cell in cells)
        columns[name] = _series(cells, text=name in _TEXT or named)
    return pd.DataFrame(columns)


def _series(cells: list[str], *, text: bool) -> pd.Series:
    numbers = [] if text else [_number(cell) for cell in cells]
    if text or (None in numbers and not all(cell in _TRUTH for cell in cells)):
        return pd.Series(cells, dtype=object)
    if None in numbers:
        return pd.Series([_TRUTH[cell] for cell in cells], dtype=bool)
    # A float represents every whole number of up to 15 digits exactly.
    whole = cells and all(cell.lstrip("-").isdecimal() and len(cell) <= 15 for cell in cells)
    return pd.Series(numbers, dtype="int64" if whole else "float64")


def _number(cell: str) -> float | None:
    if not cell:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None
