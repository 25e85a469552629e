"""The thread that brings the journal to MLflow: in order, in batches, again and again until the store has it."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from pathlib import Path

from sweeper.tracking.journal import Entry, Journal, Progress, progress_path
from sweeper.tracking.notices import Notices
from sweeper.tracking.records import SWEEP, ArtifactMade, Measured, RunEnded, RunStarted
from sweeper.tracking.store import RefusedError, Store, UnavailableError, is_refusal, plain_reason
from sweeper.tracking.uri import shown_uri

_GATHER = 0.25  # seconds from the first record to sending, so that reports travel in one request
_LONGEST_PAUSE = 30.0  # seconds between two attempts on a store that is down
_ATTEMPTS = 3  # on a record that fails while the store answers; then it is set aside


class Sender:
    """Sends what the journal holds, and keeps in ``Progress`` how far it came.

    Records are sent at least once and, as a point keeps its time of recording, arrive once: MLflow ignores a metric
    it has. A run is looked up by its tags before it is created whenever an earlier attempt may have created it.
    """

    def __init__(self, *, store: Store, journal: Journal, spool: Path, notices: Notices) -> None:
        self.delivered = 0
        self.reason = ""
        self._store = store
        self._journal = journal
        self._spool = spool
        self._notices = notices
        self._progress: Progress | None = None
        self._progress_path = progress_path(spool, f"{shown_uri(store.uri)}\n{store.experiment}")
        self._chunk: deque[list[Entry]] = deque()
        self._chunk_end = 0
        self._attempts = 0
        self._aside: set[int] = set()
        self._pause = 0.0
        self._new = threading.Event()
        self._closing = threading.Event()
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mlflow-sender", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There are new records in the journal."""
        self._new.set()

    def close(self, timeout: float) -> None:
        """Send what is left, with one more attempt where the store is down; return after ``timeout`` seconds."""
        self._closing.set()
        self._new.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.reason = self.reason or f"not done within {timeout:.0f} s"
            self._abandoned.set()

    def pending(self) -> int:
        """How many records of the journal MLflow does not have."""
        progress = self._progress or Progress.load(self._progress_path, self._journal.sweep_id)
        return len(progress.later) + sum(1 for _ in self._journal.records(progress.offset))

    @property
    def sweep_run_id(self) -> str | None:
        """The parent run's id, once there is one."""
        return self._progress.runs.get(SWEEP) if self._progress is not None else None

    def _run(self) -> None:
        last = False
        while not last:
            if self._pause:
                self._closing.wait(self._pause)
            else:
                self._new.wait()
                self._closing.wait(_GATHER)
            self._new.clear()
            last = self._closing.is_set()
            try:
                if self._journal.is_open:
                    self._send_all()
                self._pause = 0.0
                self.reason = self.reason if self._aside else ""
                self._notices.over("unavailable", f"MLflow at {shown_uri(self._store.uri)} answers again")
            except Exception as error:
                self._wait_longer(error)

    def _wait_longer(self, error: Exception) -> None:
        self._pause = min(max(2 * self._pause, 1.0), _LONGEST_PAUSE)
        self.reason = plain_reason(error)
        self._notices.warn(
            "unavailable",
            f"MLflow at {shown_uri(self._store.uri)} cannot be used ({self.reason}); the sweep goes on and its "
            f"records wait in {self._spool}",
        )
        if not isinstance(error, UnavailableError):
            logging.getLogger(__name__).debug("sending to MLflow failed", exc_info=error)

    def _send_all(self) -> None:
        progress = self._connect()
        while not self._abandoned.is_set():
            if self._chunk:
                self._attempt(progress, self._chunk[0])
                self._chunk.popleft()
                if self._chunk:
                    continue
                progress.offset = self._chunk_end
                progress.save(self._progress_path)
            entries, self._chunk_end = self._journal.read(progress.offset)
            self._chunk.extend(_by_request(entries))
            if self._chunk:
                continue
            progress.offset = self._chunk_end  # past lines that hold no record
            waiting = next((offset for offset in progress.later if offset not in self._aside), None)
            if waiting is None:
                return
            entry = self._journal.read_one(waiting)
            if entry is None or self._attempt(progress, [entry], now=True):
                progress.later.remove(waiting)
                progress.save(self._progress_path)

    def _connect(self) -> Progress:
        self._store.connect()
        progress = self._progress or Progress.load(self._progress_path, self._journal.sweep_id)
        if self._progress is None and SWEEP in progress.runs:
            stage = self._store.stage(progress.runs[SWEEP])
            if stage == "deleted":
                raise UnavailableError(
                    f"the sweep's run is deleted there: restore it with `mlflow runs restore --run-id "
                    f"{progress.runs[SWEEP]}`"
                )
            if stage == "absent":  # the store was made anew: it gets everything
                progress = Progress(self._journal.sweep_id)
        self._progress = progress
        return progress

    def _attempt(self, progress: Progress, entries: list[Entry], *, now: bool = False) -> bool:
        """Deliver entries of one request; False when they were put off or set aside, raises to try again."""
        if isinstance(entries[0].record, ArtifactMade) and not now:
            if entries[0].offset not in progress.later:
                progress.later.append(entries[0].offset)
            return False
        try:
            self._deliver(progress, entries)
        except Exception as error:
            self._attempts += 1
            if not is_refusal(error) and (self._attempts < _ATTEMPTS or not self._store.answers()):
                raise
            self._set_aside(progress, entries, error)
            self._attempts = 0
            return False
        self._attempts = 0
        self.delivered += len(entries)
        return True

    def _set_aside(self, progress: Progress, entries: list[Entry], error: Exception) -> None:
        offsets = [entry.offset for entry in entries]
        self._aside.update(offsets)
        progress.later += [offset for offset in offsets if offset not in progress.later]
        self.reason = plain_reason(error)
        self._notices.warn("refused", f"records of {_owner(entries[0])} cannot go to MLflow: {self.reason}")

    def _deliver(self, progress: Progress, entries: list[Entry]) -> None:
        entry = entries[0]
        if isinstance(entry.record, RunStarted):
            self._start(progress, entry, entry.record)
            return
        run_id = progress.runs.get(entry.record.trial)
        if run_id is None:
            raise RefusedError(f"MLflow has no run for {_owner(entry)}")
        match entry.record:
            case Measured():
                measured = [entry.record for entry in entries if isinstance(entry.record, Measured)]
                self._store.log_metrics(
                    run_id,
                    [(name, value, part.at, part.step) for part in measured for name, value in part.metrics.items()],
                )
            case ArtifactMade(path=path, under=under):
                self._store.keep(run_id, Path(os.path.normpath(self._spool / path)), under=under)
            case RunEnded(status=status, tags=tags, at=at):
                self._store.end(run_id, status=status, tags=tags, at=at)

    def _start(self, progress: Progress, entry: Entry, started: RunStarted) -> None:
        run_id = progress.runs.get(started.trial)
        if run_id is None:
            identity = {"sweep_id": self._journal.sweep_id, "trial_id": started.trial or "sweep"}
            perhaps_made = entry.offset < self._journal.size_at_open or self._attempts > 0
            run_id = self._store.find_run(identity) if perhaps_made else None
            if run_id is None:
                tags = {**started.tags, **identity}
                if started.trial != SWEEP:
                    if SWEEP not in progress.runs:
                        raise RefusedError("MLflow has no run for the sweep")
                    tags["mlflow.parentRunId"] = progress.runs[SWEEP]
                run_id = self._store.create_run(name=started.name, tags=tags, at=started.at)
            progress.runs[started.trial] = run_id
            progress.save(self._progress_path)
        self._store.begin(run_id, params=started.params, tags=started.tags)


def _owner(entry: Entry) -> str:
    return f"trial {entry.record.trial}" if entry.record.trial != SWEEP else "the sweep"


def _by_request(entries: list[Entry]) -> list[list[Entry]]:
    """Group the metrics of a run that no other record of this run divides; the rest goes one by one, in order."""
    requests: list[list[Entry]] = []
    open_group: dict[str, list[Entry]] = {}
    for entry in entries:
        trial = entry.record.trial
        if not isinstance(entry.record, Measured):
            open_group.pop(trial, None)
            requests.append([entry])
        elif trial in open_group:
            open_group[trial].append(entry)
        else:
            open_group[trial] = [entry]
            requests.append(open_group[trial])
    return requests
