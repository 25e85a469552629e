"""The complete rows of a CSV file that may be growing while it is read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import AnalysisError
from search_spaces.durable import whole_lines


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One record: the line of the file it begins on (the header is line 1) and its cells."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvRows:
    """A header and its records; ``torn`` says that a half-written last record was left out."""

    columns: tuple[str, ...] = ()
    rows: tuple[CsvRow, ...] = ()
    torn: bool = False

    def records(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Each record with the line it begins on, as cells by column."""
        return ((row.line, dict(zip(self.columns, row.cells, strict=True))) for row in self.rows)


def read_rows(path: Path, *, required: Sequence[str], growing: bool = True) -> CsvRows:
    """Every complete record of ``path``; no rows and no columns when the file or its header is not there yet.

    A last line without its newline is being written at this moment, or its writer was killed: it is left out, unless
    the file is known not to be ``growing``: a table that somebody else wrote may end without one.

    Raises:
        AnalysisError: a required column is missing, a header stands twice, a record has more or fewer cells than the
            header, or the file is not UTF-8 CSV.
    """
    if not path.is_file():
        return CsvRows()
    data = path.read_bytes()
    whole = whole_lines(data) if growing else data
    try:
        text = whole.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AnalysisError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    records, cut = _records(path, text)
    torn = cut or len(whole) < len(data)
    if not records:
        return CsvRows(torn=torn)
    columns = records[0].cells
    for found, words in (
        ([name for name in required if name not in columns], "{} lacks the column{} {}"),
        (sorted({name for name in columns if columns.count(name) > 1}), "{} has the column{} {} twice"),
    ):
        if found:
            raise AnalysisError(words.format(path, "s" * (len(found) > 1), ", ".join(found)))
    for row in records[1:]:
        if len(row.cells) != len(columns):
            raise AnalysisError(
                f"{path}, line {row.line}: {len(row.cells)} cells, expected {len(columns)} as in the header"
            )
    return CsvRows(columns, tuple(records[1:]), torn)


def _records(path: Path, text: str) -> tuple[list[CsvRow], bool]:
    """The records of a text, and whether its last one ends inside quotes (an error message has line breaks)."""
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
                return records, True
            raise AnalysisError(f"{path}, line {line}: not CSV: {error}") from None
        if cells:
            records.append(CsvRow(line, tuple(cells)))
