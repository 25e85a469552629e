"""The thread that writes what the sweep says to the journal: only what is new, and within milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue

from sweeper.tracking.journal import Journal
from sweeper.tracking.notices import Notices
from sweeper.tracking.records import Measured, Record, RunEnded, RunStarted, finite_metrics, to_line

_PER_WRITE = 1000  # records written at a time
_PAUSE = 1.0  # seconds between attempts to open the journal

MakeRecords = Callable[["Recorded"], Sequence[Record]]
"""Makes records on the recorder's thread from what was recorded before: work that the caller does not wait for."""


class Recorded:
    """What the journal holds, as far as it decides what is new."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self._last: dict[str, dict[str, tuple[int, float]]] = {}  # by trial and metric: step and value

    def add(self, record: Record) -> None:
        """Take in a record of the journal."""
        match record:
            case RunStarted(trial=trial):
                self.ended.discard(trial)
            case RunEnded(trial=trial):
                self.ended.add(trial)
            case Measured(trial=trial, step=step, metrics=metrics):
                self._last.setdefault(trial, {}).update((name, (step, value)) for name, value in metrics.items())

    def last_step(self, trial: str) -> int:
        """The last step a metric of the trial was recorded at; 0 when there is none."""
        return max((step for step, _ in self._last.get(trial, {}).values()), default=0)

    def new_metrics(self, trial: str, *, at: int, step: int, values: Mapping[str, object]) -> list[Record]:
        """The finite values that are not behind or equal to what was recorded, as one record or none."""
        last = self._last.get(trial, {})
        new = {}
        for name, value in finite_metrics(values).items():
            before = last.get(name)
            if before is None or step > before[0] or (step == before[0] and value != before[1]):
                new[name] = value
        return [Measured(trial, at, int(step), new)] if new else []


class Recorder:
    """A queue and the thread that empties it into the journal. ``written`` is called after each write."""

    def __init__(self, *, journal: Journal, notices: Notices, written: Callable[[], None]) -> None:
        self.unwritten: list[bytes] = []
        self._journal = journal
        self._notices = notices
        self._written = written
        self._recorded = Recorded()
        self._queue: SimpleQueue[MakeRecords | None] = SimpleQueue()
        self._scanned = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mlflow-recorder", daemon=True)
        self._thread.start()

    def put(self, make: MakeRecords) -> None:
        """Record what ``make`` returns. Takes about a microsecond."""
        self._queue.put(make)

    def has_ended(self, trial: str) -> bool:
        """Whether the journal holds the trial's end, with no later start."""
        self._scanned.wait(timeout=10.0)
        return trial in self._recorded.ended

    def close(self, timeout: float) -> None:
        """Write what is left; ``unwritten`` keeps what the disk refused."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._open() and not self._closing.wait(_PAUSE):
            pass
        more = True
        while more:
            more = self._take()
            self._write()

    def _open(self) -> bool:
        try:
            self._journal.open()
            for record in self._journal.records():
                self._recorded.add(record)
        except Exception as error:
            self._warn(error)
        self._scanned.set()
        return self._journal.is_open

    def _take(self) -> bool:
        """Wait for the first of the queue, then take what is there; False when it was closed."""
        make = self._queue.get()
        while make is not None:
            try:
                for record in make(self._recorded):
                    self.unwritten.append(to_line(record))
                    self._recorded.add(record)
            except Exception as error:
                self._notices.warn("record", f"a record for MLflow could not be made: {error!r}")
            if self._queue.empty() or len(self.unwritten) >= _PER_WRITE:
                return True
            make = self._queue.get()
        return False

    def _write(self) -> None:
        if not self.unwritten:
            return
        try:
            self._journal.append(self.unwritten)
            self.unwritten.clear()
        except Exception as error:
            self._warn(error)
        else:
            self._written()

    def _warn(self, error: Exception) -> None:
        self._notices.warn("spool", f"records for MLflow cannot be written to {self._journal.path.parent}: {error}")
