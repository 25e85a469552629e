"""The tables of a sweep's folder: trials.csv, history.csv, auto_lr.csv and candidates.csv.

The tables of a sweep can be rebuilt from its event log. A row that a kill has torn is ignored.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from search_spaces.durable import append, whole_lines, write_whole
from sweeper.store.columns import AUTO_LR_COLUMNS, CANDIDATE_COLUMNS, HISTORY_COLUMNS, TRIAL_COLUMNS

Row = dict[str, object]
TABLES = ("history.csv", "auto_lr.csv", "candidates.csv", "trials.csv")
"""The tables, in the order in which they are written: the reports of a trial before its row of trials.csv."""


class CsvTable:
    """A CSV file that only grows, whole rows at a time, or is replaced whole.

    An existing file keeps its columns. When it is replaced it gets those of new files, and keeps those with values.
    """

    def __init__(self, path: Path, columns: Sequence[str], *, sync: bool) -> None:
        self.path = path
        self._new = tuple(columns)
        self._sync = sync

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file, or those that a new file will have."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            if (header := file.readline()).endswith(b"\n"):
                return tuple(next(csv.reader([header.decode(errors="replace")])))
        return self._new

    def read(self) -> list[dict[str, str]]:
        """Return the complete rows. A torn last row is left out."""
        if not self.path.is_file():
            return []
        return list(csv.DictReader(io.StringIO(_whole_rows(self.path.read_bytes()).decode(), newline="")))

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Append rows, after a header in a new file. With ``sync`` they are on disk when this returns.

        Raises:
            OSError: the disk is full or the folder is gone; none of the rows is in the file then.
        """
        content, header = _lines(self.columns, rows), _lines(self.columns, [], header=True)
        append(self.path, content, header=header, sync=self._sync)

    def sync(self) -> None:
        """Flush the appended rows from the cache to the disk.

        Raises:
            OSError: the disk refuses.
        """
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            os.fsync(file.fileno())

    def rewrite(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Replace the whole file in one step."""
        rows = list(rows)
        kept = (name for name in self.columns if any(name in row for row in rows))
        columns = tuple(dict.fromkeys((*self._new, *kept)))
        content = _lines(columns, rows, header=True)
        write_whole(self.path, content, sync=True)
        self.columns = columns


class ResultTables:
    """The CSV files of one sweep folder, and the rows that are not written yet.

    ``every_epoch``: each evaluated epoch is a candidate, with a row in candidates.csv. New tables are ``without`` these
    columns.
    """

    def __init__(self, out: Path, *, every_epoch: bool = False, without: Collection[str] = ()) -> None:
        def log(name: str, columns: Sequence[str], *, sync: bool = False) -> CsvTable:
            return CsvTable(out / name, [column for column in columns if column not in without], sync=sync)

        self.out = out
        self.trials = log("trials.csv", TRIAL_COLUMNS, sync=True)
        self.history = log("history.csv", HISTORY_COLUMNS)
        self.auto_lr = log("auto_lr.csv", AUTO_LR_COLUMNS)
        self.candidates = log("candidates.csv", CANDIDATE_COLUMNS)
        self.every_epoch = every_epoch
        self._logs = (self.history, self.auto_lr, self.candidates)
        # In this order: a kill in between must not leave a finished trial without its last report for ever.
        self._waiting: dict[CsvTable, list[Row]] = {log: [] for log in (*self._logs, self.trials)}

    def add_report(self, trial_id: str, report: Mapping[str, Any], *, checkpoint: str = "") -> None:
        """Add a report of a trial, with its AutoLR updates. :meth:`write` writes it.

        A report that is not ``evaluated`` repeats the losses of an earlier epoch and is no candidate.
        """
        self._waiting[self.history].append({"trial_id": trial_id, "reported_at": time.time(), **report})
        self._waiting[self.auto_lr] += [{"trial_id": trial_id, **update} for update in report.get("auto_lr", ())]
        if self.every_epoch and report.get("evaluated", True):
            self._waiting[self.candidates].append({"trial_id": trial_id, **report, "checkpoint": checkpoint})

    def add_trial(self, row: Row) -> None:
        """Add the row of an ended trial. :meth:`write` writes it."""
        self._waiting[self.trials].append(row)

    def write(self) -> None:
        """Write the added rows.

        Raises:
            OSError: the disk refuses; what is not written waits for the next call.
        """
        for log, rows in self._waiting.items():
            if log is self.trials and rows:  # its reports must be on disk first
                for other in self._logs:
                    other.sync()
            if rows:
                log.append(rows)
                rows.clear()

    def replace(
        self,
        *,
        history: Sequence[Mapping[str, object]],
        auto_lr: Sequence[Mapping[str, object]],
        candidates: Sequence[Mapping[str, object]],
        trials: Sequence[Mapping[str, object]],
    ) -> None:
        """Rewrite all tables with these rows. A log without rows is written only if its file exists.

        Raises:
            OSError: the disk refuses; each table is either new or as it was.
        """
        rows_of = {
            self.history: history,
            self.auto_lr: auto_lr,
            self.candidates: candidates if self.every_epoch else (),
        }
        for log, rows in rows_of.items():
            if rows or log.path.is_file():
                log.rewrite(rows)
        self.trials.rewrite(trials)
        for waiting in self._waiting.values():
            waiting.clear()

    def cut(self, step: int) -> None:
        """Remove torn lines and the rows after a step, so that a single run continues there. Create trials.csv.

        Raises:
            OSError: the disk refuses.
        """
        self.trials.rewrite([])
        for log in self._logs:
            if log.path.is_file():
                log.rewrite(row for row in log.read() if int(row["step"]) <= step)


def _whole_rows(content: bytes) -> bytes:
    """Return the content without a torn last row. A torn row may end at a line break within quotes."""
    content = whole_lines(content)
    while content.count(b'"') % 2:
        content = whole_lines(content[:-1])
    return content


def _lines(columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, header: bool = False) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    if header:
        writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return buffer.getvalue().encode()


def _cell(value: object) -> object:
    """Return the cell of a value. Missing values are empty; floats keep all their digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else value
