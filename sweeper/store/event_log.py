"""OUT/events.jsonl, the event log of a sweep. The tables and the Optuna study can be rebuilt from the log.

Events are only appended. If a kill leaves an incomplete last line, the line is removed before the next event is
appended. A follower (such as the tables) receives an event after the event is on disk, unless ``needs_disk`` is False.
While the disk is full, new events wait in memory.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Protocol

from search_spaces.common.durable import append
from sweeper.store.events import Event, Record, TrialEnded
from sweeper.store.state import SweepState
from sweeper.store.tables import TABLES

FILE = "events.jsonl"
logger = logging.getLogger(__name__)


class EventLogError(ValueError):
    """The log is damaged or missing; the message names the file, the damaged line and the remedy."""

    exit_code = 2


class Follower(Protocol):
    """Reacts to the events of a sweep, for example by updating the tables."""

    needs_disk: bool = True
    """Whether the follower receives only events that are on disk."""

    def catch_up(self, state: SweepState) -> None:
        """Process all events on disk at once. The log calls this method when the follower is attached."""
        return  # with an empty body, mypy would treat the method as abstract

    def apply(self, event: Event, state: SweepState) -> None:
        """Process an event. ``state`` already includes the event. The log calls this method for all events in order."""

    def flush(self, state: SweepState) -> None:
        """Write or send the effects of the processed events. After an OSError, the log calls this method again."""
        return


def read_records(path: Path) -> list[Record]:
    """Return the lines of a log. An incomplete last line is ignored.

    Raises:
        EventLogError: a line other than the last is damaged.
    """
    if not path.is_file():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines):
        try:
            record = Record.from_line(line)
            if record.seq != number:
                raise ValueError(f"expected the event number (seq) {number}, got {record.seq}")
        except ValueError as error:
            raise EventLogError(
                f"{path}, line {number + 1} is damaged or from another version ({error}). Restore the file from a "
                "copy, or delete the line and all later lines; resume then repeats what these lines record"
            ) from None
        records.append(record)
    return records


def read_state(out: Path) -> SweepState:
    """Compute the state of the sweep in the folder ``out`` from its event log. Without trials, the state is empty.

    Raises:
        EventLogError: the log is damaged, or the folder has tables and no log.
    """
    path = out / FILE
    if not path.exists() and any((out / name).exists() for name in TABLES):
        raise EventLogError(
            f"{path} does not exist, and the tables alone do not contain the state of the sweep. Restore the file from "
            "a copy. Without the file, report, compare, pick and lr-study --from still read the tables"
        )
    state = SweepState()
    for record in read_records(path):
        state.apply(record)
    return state


class EventLog:
    """The events of a sweep, the state computed from the events, and the followers. Thread-safe.

    Raises:
        EventLogError: a line of the log other than the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = read_records(path)
        self.state = SweepState()
        for record in self.records:
            self.state.apply(record)
        self._pending: list[Record] = []
        self._followers: list[Follower] = []
        self._lock = threading.RLock()

    @property
    def unwritten_trials(self) -> int:
        """The number of ended trials whose end is not on disk yet."""
        return sum(isinstance(record.event, TrialEnded) for record in self._pending)

    def attach(self, *followers: Follower) -> None:
        """Let followers catch up. Then pass all later events to the followers, to the follower added first first."""
        with self._lock:
            for follower in followers:
                follower.catch_up(self.state)
            self._followers += followers

    def record(self, event: Event) -> None:
        """Append an event to the log. Then pass the event to the followers, and flush the followers."""
        with self._lock:
            record = Record.new(len(self.records) + len(self._pending), event)
            self._pending.append(record)
            self.state.apply(record)
            for follower in self._followers:
                if not follower.needs_disk:
                    self._notify(follower, record)
            self.flush()

    def flush(self) -> bool:
        """Write the waiting events, and pass them to the followers. Return whether all writing succeeded.

        If a follower raises OSError, the next call flushes the follower again.
        """
        with self._lock:
            written_records = self._write()
            is_written = written_records is not None
            is_flushed = True
            for follower in self._followers:
                if follower.needs_disk:
                    for record in written_records or []:
                        self._notify(follower, record)
                try:
                    if is_written or not follower.needs_disk:
                        follower.flush(self.state)
                except OSError as error:
                    is_flushed = False
                    logger.warning("%s cannot write: %s; the write is tried again", type(follower).__name__, error)
                except Exception:
                    logger.exception("error in %s; the sweep continues", type(follower).__name__)
            return is_written and is_flushed

    def _write(self) -> list[Record] | None:
        """Append the waiting events to the file. Return the appended events, or None if writing fails."""
        pending = self._pending
        if not pending:
            return []
        try:
            append(self.path, b"".join(record.to_line() for record in pending), sync=True)
        except OSError as error:
            logger.warning("cannot write to %s: %s; %d events wait in memory", self.path, error, len(pending))
            return None
        self._pending = []
        self.records += pending
        return pending

    def _notify(self, follower: Follower, record: Record) -> None:
        try:
            follower.apply(record.event, self.state)
        except Exception:
            logger.exception("error in %s; the sweep continues", type(follower).__name__)
