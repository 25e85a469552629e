"""What the sweep tells MLflow, without waiting for it.

Every call puts a record in a queue and returns. One thread (:mod:`sweeper.tracking.recorder`) writes the queue to the
journal on disk, within milliseconds; another (:mod:`sweeper.tracking.sender`) brings the journal to MLflow. Two
threads, so that a record is safe on disk while a request hangs: a killed sweep loses the records of its last
milliseconds at most.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.tracking.journal import Journal
from sweeper.tracking.notices import Notices
from sweeper.tracking.recorder import Recorded, Recorder
from sweeper.tracking.records import (
    SWEEP,
    ArtifactMade,
    Record,
    RunEnded,
    RunStarted,
    fit_params,
    fit_tags,
    run_name,
)
from sweeper.tracking.sender import Sender
from sweeper.tracking.store import Store, prepare_environment
from sweeper.tracking.uri import absolute_uri, shown_uri
from trainables.run.reports import Status

_MLFLOW_STATUS = {
    Status.FINISHED: "FINISHED",
    Status.STOPPED: "KILLED",
    "interrupted": "KILLED",
    Status.DIVERGED: "FAILED",
    Status.FAILED: "FAILED",
}


@dataclass(frozen=True, slots=True)
class TrackingSummary:
    """What became of the records: ``delivered`` in this session, ``pending`` for the next one.

    ``message`` is one sentence for the user when something is pending, else None; ``run_id`` is the parent run's.
    """

    delivered: int
    pending: int
    message: str | None
    run_id: str | None


class Tracker:
    """Keeps a sweep in MLflow: one parent run, one child run per trial.

    No method waits for MLflow, the network or the disk, and none raises on their account. A tracker on the ``spool``
    of an earlier session goes on in the same runs and first sends what was left. Metrics of a trial go forward in
    steps: a report of a step that was recorded before is ignored, so a trial that goes on from a checkpoint, or
    records sent again from ``history.csv``, leave no double points.

    ``uri`` is MLflow's tracking URI; the path of a SQLite file is resolved now. ``artifact_root`` is where artifacts
    of an experiment lie that this tracker creates in a database; a server decides that by itself.
    """

    def __init__(
        self,
        *,
        uri: str,
        experiment: str,
        sweep_name: str,
        spool: Path,
        parent_params: Mapping[str, object],
        parent_tags: Mapping[str, str],
        artifact_root: Path | None,
    ) -> None:
        prepare_environment()
        self._uri = absolute_uri(uri)
        self._sweep_name = sweep_name
        self._spool = spool.absolute()
        self._summary: TrackingSummary | None = None
        self._journal = Journal(self._spool)
        notices = Notices()
        store = Store(
            uri=self._uri, experiment=experiment, artifact_root=artifact_root, workshop=self._spool / "new-database"
        )
        self._sender = Sender(store=store, journal=self._journal, spool=self._spool, notices=notices)
        self._recorder = Recorder(journal=self._journal, notices=notices, written=self._sender.wake)
        self._start(SWEEP, sweep_name, parent_params, parent_tags)

    def trial_started(self, trial_id: str, *, params: Mapping[str, object], tags: Mapping[str, str]) -> None:
        """A trial begins, or goes on after an interruption. Parameters that are None are left out."""
        self._start(trial_id, run_name(trial_id, params), params, tags)

    def trial_report(self, trial_id: str, *, step: int, metrics: Mapping[str, object]) -> None:
        """Metrics at one step. Those that are not finite numbers are left out."""
        at, values = _now(), dict(metrics)
        self._recorder.put(lambda recorded: recorded.new_metrics(trial_id, at=at, step=step, values=values))

    def trial_ended(
        self,
        trial_id: str,
        *,
        status: str,
        metrics: Mapping[str, object],
        tags: Mapping[str, str] | None = None,
        checkpoint: Path | None = None,
        files: Sequence[Path] = (),
        error: str | None = None,
    ) -> None:
        """A trial is over: ``status`` is finished, stopped, diverged or failed, and kept as the tag ``status`` too.

        ``metrics`` are logged at the last step reported, the folder ``checkpoint`` as the artifact "checkpoint",
        and ``files`` at the top of the run's artifacts.
        """
        artifacts = [] if checkpoint is None else [(checkpoint, "checkpoint")]
        artifacts += [(path, "") for path in files]
        self._end(trial_id, status, metrics, {**(tags or {}), "error": error}, artifacts)

    def sweep_ended(self, *, status: str, metrics: Mapping[str, object], artifacts: Sequence[Path] = ()) -> None:
        """The sweep is over (finished, interrupted or failed); files and folders are kept with the parent run."""
        self._end(SWEEP, status, metrics, {}, [(path, path.name if path.is_dir() else "") for path in artifacts])

    def has_ended(self, trial_id: str) -> bool:
        """Whether the trial's end was recorded, in this session or before.

        A killed sweep may have lost the last milliseconds of records. A resumed sweep makes up for it by calling
        ``trial_started``, ``trial_report`` and ``trial_ended`` with the rows of each finished trial that has not
        ended here; what was recorded before is not recorded twice.
        """
        return self._recorder.has_ended(trial_id)

    def close(self, timeout: float = 30.0) -> TrackingSummary:
        """Send what is left for up to ``timeout`` seconds and say what became of it. Later calls record nothing."""
        if self._summary is not None:
            return self._summary
        deadline = time.monotonic() + timeout
        self._recorder.close(timeout)
        self._sender.close(max(0.0, deadline - time.monotonic()))
        pending = self._sender.pending() if self._journal.is_open else 0
        self._journal.close()
        self._summary = TrackingSummary(
            delivered=self._sender.delivered,
            pending=pending,
            message=self._message(pending, lost=len(self._recorder.unwritten)),
            run_id=self._sender.sweep_run_id,
        )
        return self._summary

    def _message(self, pending: int, *, lost: int) -> str | None:
        if lost:
            return f"{lost} records for MLflow are lost: they could not be written to {self._spool}"
        if pending:
            reason = self._sender.reason or "no time was left"
            return (
                f"MLflow at {shown_uri(self._uri)} does not have {pending} of the sweep's records ({reason}); "
                f"they wait in {self._spool} and are sent when the sweep is resumed"
            )
        return None

    def _start(self, trial: str, name: str, params: Mapping[str, object], tags: Mapping[str, str]) -> None:
        at, values, labels = _now(), dict(params), {**tags, "sweep": self._sweep_name, "status": "running"}
        self._recorder.put(lambda _: [RunStarted(trial, at, name, fit_params(values), fit_tags(labels))])

    def _end(
        self,
        trial: str,
        status: str,
        metrics: Mapping[str, object],
        tags: Mapping[str, object],
        artifacts: Sequence[tuple[Path, str]],
    ) -> None:
        at, values, labels = _now(), dict(metrics), {**tags, "status": status}

        def make(recorded: Recorded) -> list[Record]:
            measured = recorded.new_metrics(trial, at=at, step=recorded.last_step(trial), values=values)
            kept = [ArtifactMade(trial, at, self._portable(path), under) for path, under in artifacts]
            return [*measured, *kept, RunEnded(trial, at, _MLFLOW_STATUS.get(status, "FAILED"), fit_tags(labels))]

        self._recorder.put(make)

    def _portable(self, path: Path) -> str:
        """The path as seen from the spool when both lie in one sweep's folder, which may be moved."""
        path = path.absolute()
        return os.path.relpath(path, self._spool) if path.is_relative_to(self._spool.parent) else str(path)


def _now() -> int:
    return time.time_ns() // 1_000_000
