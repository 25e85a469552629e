"""The record of a sweep on disk: trials.csv, history.csv, auto_lr.csv and candidates.csv, appended as things happen.

trials.csv is the truth about which trials are done: a row is written and synced before anyone is told, so that after
``kill -9`` a resumed sweep keeps exactly the trials that have a row. A line torn by the kill is dropped.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from search_spaces.durable import append, whole_lines, write_whole
from sweeper.store.columns import AUTO_LR_COLUMNS, CANDIDATE_COLUMNS, HISTORY_COLUMNS, TRIAL_COLUMNS

Row = dict[str, object]
TABLES = ("history.csv", "auto_lr.csv", "candidates.csv", "trials.csv")
"""What a sweep's folder has of them, in an order in which each row is there before one that builds on it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a log: which file it was, and the byte behind the last row read.

    A file is told by its inode and by how often the log was replaced: of two replacements the second may have the
    inode that the first has freed.
    """

    inode: int = 0
    replaced: int = 0
    offset: int = 0


class CsvTable:
    """A CSV file that only grows, whole rows at a time, or is replaced whole.

    One that is there keeps its columns; replaced it has them and those of new files.
    """

    def __init__(self, path: Path, columns: Sequence[str], *, sync: bool) -> None:
        self.path = path
        self._new = tuple(columns)
        self._sync = sync
        self._replaced = 0

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The file's, or those that it will begin with."""
        with contextlib.suppress(FileNotFoundError), self.path.open(newline="", encoding="utf-8") as file:
            if (header := file.readline()).endswith("\n"):
                return tuple(next(csv.reader([header])))
        return self._new

    def read(self) -> list[dict[str, str]]:
        """The complete rows; a last one that was torn is left out."""
        return self.read_on(Mark())[0]

    def read_on(self, mark: Mark, *, limit: int = -1) -> tuple[list[dict[str, str]], Mark]:
        """The complete rows behind ``mark``, of about ``limit`` bytes, and the mark behind them.

        All rows where the file was replaced since.
        """
        if not self.path.is_file():
            return [], Mark()
        replaced = self._replaced
        with self.path.open("rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            start = mark.offset if (mark.inode, mark.replaced) == (inode, replaced) else 0
            file.seek(start)
            content = _whole_rows(file.read(limit))
        names = None if start == 0 else self.columns
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), fieldnames=names)
        return list(rows), Mark(inode, replaced, start + len(content))

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows, after a header in a new file; on disk when this returns if the log is a synced one.

        Raises:
            OSError: the disk is full or the folder is gone; none of the rows is in the file then.
        """
        content, header = _lines(self.columns, rows), _lines(self.columns, [], header=True)
        append(self.path, content, header=header, sync=self._sync)

    def sync(self) -> None:
        """Have what was appended on the disk, not in its cache.

        Raises:
            OSError: the disk refuses.
        """
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            os.fsync(file.fileno())

    def rewrite(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Replace the whole file, all at once."""
        columns = tuple(dict.fromkeys((*self._new, *self.columns)))
        content = _lines(columns, rows, header=True)
        self._replaced += 1
        write_whole(self.path, content, sync=True)
        self.columns = columns


class ResultTables:
    """The CSV files of one sweep folder, and the rows that wait for a disk that refuses them.

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

    @property
    def unwritten(self) -> int:
        """How many rows of finished trials are not on disk."""
        return len(self._waiting[self.trials])

    def add_report(self, trial_id: str, report: Mapping[str, Any], *, checkpoint: str = "") -> None:
        """Put down a report of a trial, with the AutoLR updates in it, for :meth:`write`.

        A report that is not ``evaluated`` repeats the losses of an earlier epoch and is no candidate.
        """
        self._waiting[self.history].append({"trial_id": trial_id, "reported_at": time.time(), **report})
        self._waiting[self.auto_lr] += [{"trial_id": trial_id, **update} for update in report.get("auto_lr", ())]
        if self.every_epoch and report.get("evaluated", True):
            self._waiting[self.candidates].append({"trial_id": trial_id, **report, "checkpoint": checkpoint})

    def add_trial(self, row: Row) -> None:
        """Put down the row of a trial that is over, for :meth:`write`."""
        self._waiting[self.trials].append(row)

    def write(self) -> None:
        """Write what was put down.

        Raises:
            OSError: the disk refuses; what is not written waits for the next call.
        """
        for log, rows in self._waiting.items():
            if log is self.trials and rows:  # its reports are to be on the disk before it
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
        """Write all tables anew with these rows. A log without rows is written only if its file exists.

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

    def mend(self, restored_steps: Mapping[str, int], *, again: Collection[str] = ()) -> None:
        """Make the files whole before a resumed sweep appends to them.

        Torn lines go, and so does the history that an unfinished trial will write again: everything after the step
        in ``restored_steps`` it goes on from, or all of it where it starts anew. Of the trials that are to run
        ``again`` the rows go, too. trials.csv is there from now on: where it is missing beside a history it is lost.
        """
        done: dict[str, dict[str, str]] = {}
        for row in self.trials.read():
            if row["trial_id"] not in again:
                done.setdefault(row["trial_id"], row)
        self.trials.rewrite(done.values())
        for log in self._logs:
            if log.path.is_file():
                log.rewrite(
                    row
                    for row in log.read()
                    if row["trial_id"] in done or int(row["step"]) <= restored_steps.get(row["trial_id"], -1)
                )

    def sort(self, checkpoint: Callable[[dict[str, str]], str] | None = None) -> None:
        """Put trials.csv in the order of trial ids and the logs in that of (trial id, step).

        ``checkpoint`` tells of a row of candidates.csv where its model is on disk, "" where nowhere.
        """
        for log in (self.trials, *self._logs):
            if log is self.trials or log.path.is_file():
                rows = sorted(log.read(), key=lambda row: (row["trial_id"], int(row.get("step", 0))))
                if log is self.candidates and checkpoint is not None:
                    rows = [row | {"checkpoint": checkpoint(row)} for row in rows]
                log.rewrite(rows)


def _whole_rows(content: bytes) -> bytes:
    """The part of a growing CSV file without a torn last row, which may end at a line break inside its quotes."""
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
    """Missing values are empty, never a default score; floats keep all their digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else value
