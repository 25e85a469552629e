"""The record of a sweep on disk: trials.csv, history.csv and auto_lr.csv, appended as things happen, and sweep.json.

trials.csv is the truth about which trials are done: a row is written and synced before anyone is told, so that after
``kill -9`` a resumed sweep keeps exactly the trials that have a row. A line torn by the kill is dropped.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sweeper.columns import AUTO_LR_COLUMNS, HISTORY_COLUMNS, TRIAL_COLUMNS

Row = dict[str, object]


class CsvLog:
    """A CSV file that only grows, whole lines at a time."""

    def __init__(self, path: Path, columns: Sequence[str], *, sync: bool) -> None:
        self.path = path
        self.columns = tuple(columns)
        self._sync = sync

    def read(self) -> list[dict[str, str]]:
        """The complete rows; a last line without its newline was torn and is left out."""
        if not self.path.is_file():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            text = file.read()
        return list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline="")))

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows, after a header in a new file; on disk when this returns if the log is a synced one.

        Raises:
            OSError: the disk is full or the folder is gone; nothing of the rows is to be relied on then.
        """
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, lineterminator="\n")
        new = not self.path.is_file() or self.path.stat().st_size == 0
        if new:
            writer.writerow(self.columns)
        for row in rows:
            writer.writerow([_cell(row.get(column)) for column in self.columns])
        # Unbuffered: a buffer that could not be written would be tried again when the file is closed.
        with self.path.open("ab", buffering=0) as file:
            size = file.tell()
            left = memoryview(buffer.getvalue().encode())
            try:
                while left:
                    left = left[file.write(left) :]
                if self._sync:
                    os.fsync(file.fileno())
            except OSError:
                # Half a line on a full disk would swallow the next one.
                os.truncate(self.path, size)
                raise

    def rewrite(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Replace the whole file, all at once."""
        staging = CsvLog(self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex[:8]}"), self.columns, sync=True)
        try:
            staging.append(rows)
            staging.path.replace(self.path)
        finally:
            staging.path.unlink(missing_ok=True)


class Ledger:
    """The CSV files of one sweep folder."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.trials = CsvLog(out / "trials.csv", TRIAL_COLUMNS, sync=True)
        self.history = CsvLog(out / "history.csv", HISTORY_COLUMNS, sync=False)
        self.auto_lr = CsvLog(out / "auto_lr.csv", AUTO_LR_COLUMNS, sync=False)

    def finished_ids(self) -> set[str]:
        """The trials that have a row, however they ended."""
        return {row["trial_id"] for row in self.trials.read()}

    def mend(self, restored_steps: Mapping[str, int]) -> None:
        """Make the files whole before a resumed sweep appends to them.

        Torn lines go, and so does the history that an unfinished trial will write again: everything after the step
        in ``restored_steps`` it goes on from, or all of it where it starts anew.
        """
        done: dict[str, dict[str, str]] = {}
        for row in self.trials.read():
            done.setdefault(row["trial_id"], row)
        if self.trials.path.is_file():
            self.trials.rewrite(done.values())
        for log in (self.history, self.auto_lr):
            if log.path.is_file():
                kept = [
                    row
                    for row in log.read()
                    if row["trial_id"] in done or int(row["step"]) <= restored_steps.get(row["trial_id"], -1)
                ]
                log.rewrite(kept)

    def sort(self) -> None:
        """Put trials.csv in the order of trial ids and the logs in that of (trial id, step)."""
        trials = self.trials.read()
        trials.sort(key=lambda row: row["trial_id"])
        self.trials.rewrite(trials)
        for log in (self.history, self.auto_lr):
            if log.path.is_file():
                rows = log.read()
                rows.sort(key=lambda row: (row["trial_id"], int(row["step"])))
                log.rewrite(rows)


def write_json(path: Path, content: object) -> None:
    """Write JSON all at once; NaN and infinities become null, as JSON has none."""
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        staging.write_text(json.dumps(_finite(content), indent=2) + "\n", encoding="utf-8")
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _cell(value: object) -> object:
    """Missing values are empty, never a default score; floats keep all their digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else value
