"""The CSV tables of a sweep. They can be rebuilt from the event log."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from search_spaces.common.durable import append, complete_lines, write_atomically
from sweeper.store.columns import AUTO_LR_COLUMNS, CANDIDATE_COLUMNS, HISTORY_COLUMNS, TRIAL_COLUMNS

Row = dict[str, object]
TABLES = ("history.csv", "auto_lr.csv", "candidates.csv", "trials.csv")
"""The tables in the order of writing. The reports of a trial are written before the trial's row in trials.csv."""


class CsvTable:
    """A CSV file to which rows are appended, or which is rewritten as a whole."""

    def __init__(self, path: Path, columns: Iterable[str]) -> None:
        self.path = path
        self.columns = tuple(columns)

    def read(self) -> list[dict[str, str]]:
        """Return the rows of the file. An incomplete last row is omitted."""
        if not self.path.is_file():
            return []
        text = _whole_rows(self.path.read_bytes()).decode()
        return list(csv.DictReader(io.StringIO(text, newline="")))

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Append rows, with a header if the file is new.

        Raises:
            OSError: the disk is full or the folder is gone; no row was appended.
        """
        append(self.path, _lines(self.columns, rows), header=_lines(self.columns, [], header=True))

    def rewrite(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Replace the file atomically."""
        write_atomically(self.path, _lines(self.columns, rows, header=True), sync=True)


class ResultTables:
    """The tables in a sweep's folder, without the columns in ``without``."""

    def __init__(self, out: Path, *, without: Collection[str] = ()) -> None:
        def table(name: str, columns: Sequence[str]) -> CsvTable:
            return CsvTable(out / name, (column for column in columns if column not in without))

        self.history = table("history.csv", HISTORY_COLUMNS)
        self.auto_lr = table("auto_lr.csv", AUTO_LR_COLUMNS)
        self.candidates = table("candidates.csv", CANDIDATE_COLUMNS)
        self.trials = table("trials.csv", TRIAL_COLUMNS)

    def truncate(self, step: int) -> None:
        """Delete all rows of trials.csv. In the other tables, delete the rows of steps after ``step``."""
        self.trials.rewrite([])
        for table in (self.history, self.auto_lr, self.candidates):
            if table.path.is_file():
                table.rewrite(row for row in table.read() if int(row["step"]) <= step)


def _whole_rows(content: bytes) -> bytes:
    """Return the content without an incomplete last row. Quoted cells may contain line breaks."""
    content = complete_lines(content)
    while content.count(b'"') % 2:
        content = complete_lines(content[:-1])
    return content


def _lines(columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, header: bool = False) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    if header:
        writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return buffer.getvalue().encode()


def _cell(value: object) -> object:
    """Format None and NaN as an empty cell, and a float with all its digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else value
