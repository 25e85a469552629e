"""What happens to the trials of a running sweep, told to everyone who must know, in the order that survives a crash.

For a trial that ends: its row is on disk first, where MLflow's tracker finds it, then the search is told, then the
display. A disk that is full does not end the sweep: rows wait in memory and are written with the next event.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeper.execution.gpu_shares import GpuShares
from sweeper.execution.ray_health import worker_logs
from sweeper.followers.checkpoints import CheckpointManager
from sweeper.followers.display import Display
from sweeper.followers.eta import Pace
from sweeper.followers.mlflow import Tracker
from sweeper.followers.syncer import Syncer
from sweeper.search.archive import number
from sweeper.search.cached_trials import RAN_TO_ITS_END, CachedTrial, cached_trials
from sweeper.search.schedulers import Scheduler
from sweeper.search.stopping import End, Stopping
from sweeper.search.study import Proposal, SweepStudy
from sweeper.store.columns import OUTCOME_METRICS
from sweeper.store.saved_states import remove_run_states
from sweeper.store.tables import ResultTables, Row
from trainables.candidates import candidate_folder
from trainables.run.failures import (
    NO_DISK,
    NO_SPACE,
    NO_STORAGE,
    WORKER_DIED,
    infrastructure,
    is_no_result,
    one_line,
    write_log,
)
from trainables.run.reports import Status
from trainables.spec import TrialSpec

logger = logging.getLogger(__name__)
FULL_DISK = End("a disk that is full or refuses")
OUT_OF_TIME = End("the time budget")
NO_ANSWER = End("a storage that refuses or does not answer")
_ENDS = {NO_SPACE: FULL_DISK, NO_DISK: FULL_DISK, NO_STORAGE: NO_ANSWER}
"""What ends the sweep, by what ended a trial: it would end the others, too."""


@dataclass(eq=False, kw_only=True)
class SweepSession:
    """The driver's side of a sweep. Ray pickles what it is given; a session pickles to nothing.

    ``front`` keeps the checkpoints of the epochs on the front; None where only a trial's last epoch counts. ``known``
    are trials of earlier sweeps by content hash: they are taken over, not run. ``pace`` estimates what is left.
    ``shares`` says which share of a GPU a trial takes, where they are measured; None where all take the same.
    After ``deadline``, on the monotonic clock, no trial starts.
    ``end`` is what ended the sweep though trials are left, ``broken`` that the infrastructure did: it is no plan.
    ``unscored`` says that epochs on the frontier could not be measured.
    ``scheduler`` ends trials early or lets them wait; None where each runs to its end. The trials ``to_end`` were asked
    to by a user: each ends with the epoch that it is in. ``syncer`` carries the files where workers do not see the
    sweep's folder, None where they do.
    """

    tables: ResultTables
    storage: Path
    study: SweepStudy
    tracker: Tracker
    display: Display
    make_spec: Callable[..., TrialSpec]
    front: CheckpointManager | None = None
    scheduler: Scheduler | None = None
    stopping: Stopping = field(default_factory=Stopping)
    known: Mapping[str, CachedTrial] = field(default_factory=dict)
    pace: Pace | None = None
    syncer: Syncer | None = None
    shares: GpuShares | None = None
    end: End | None = field(default=None, init=False)
    broken: End | None = field(default=None, init=False)
    deadline: float | None = field(default=None, init=False)
    unscored: bool = field(default=False, init=False)
    to_end: set[str] = field(default_factory=set, init=False)
    _done: set[str] = field(default_factory=set, init=False)
    _run_here: Mapping[str, CachedTrial] = field(default_factory=dict, init=False)
    _ready: tuple[Proposal, TrialSpec] | None = field(default=None, init=False)
    _specs: dict[str, TrialSpec] = field(default_factory=dict, init=False)
    _waiting: dict[str, tuple[Proposal, TrialSpec]] = field(default_factory=dict, init=False)
    _last_step: dict[str, int] = field(default_factory=dict, init=False)
    _last_report: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False)
    _epochs: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._done = {row["spec_hash"] for row in self.tables.trials.read() if row["status"] in RAN_TO_ITS_END}
        if self.front is not None:
            rows = self.tables.candidates.read()
            self.front.take_up(rows)
            for row in rows:
                self._epochs.setdefault(row["trial_id"], []).append(row)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return (object, ())

    def next_trial(self) -> tuple[Proposal, TrialSpec] | None:
        """The next trial to run and its spec, or None when there is none now or the sweep is to end.

        A trial that had begun goes on whatever the budget; one that an earlier sweep has run is taken over at once; one
        that was waiting at a rung when the sweep was killed is kept back until the scheduler lets it go on.
        """
        ready, self._ready = self._ready, None
        if ready is not None and not self._is_out_of_time:
            return ready
        if (promoted := self._promoted()) is not None:
            return promoted
        while not self.is_over and (proposal := self._ask()) is not None:
            spec = self.make_spec(proposal.config)
            self._specs[proposal.trial_id] = spec
            if (known := self.known.get(spec.spec_hash) or self._own(spec.spec_hash)) is not None:
                self._take_over(proposal.trial_id, known)
            elif not self.is_ended_early(proposal.trial_id):
                return proposal, spec
            else:
                self._waiting[proposal.trial_id] = proposal, spec
        return self._promoted()

    def _ask(self) -> Proposal | None:
        try:
            return self.study.ask()
        except OSError as error:
            logger.warning("cannot write to %s: %s; no new trial starts", self.tables.out, error)
            self.broken = FULL_DISK
            return None

    def _promoted(self) -> tuple[Proposal, TrialSpec] | None:
        """One of those kept back that may go on by now."""
        if self.scheduler is None or not self._waiting or self.is_over:
            return None
        promoted = self.scheduler.next_promotion([*self._waiting])
        return None if promoted is None else self._waiting.pop(promoted)

    def put_back(self, following: tuple[Proposal, TrialSpec]) -> None:
        """It cannot begin yet, and is the next trial again."""
        self._ready = following

    def has_next(self) -> bool:
        """Whether there is a trial to run; those that are taken over before it are done when this returns."""
        self._ready = self.next_trial()
        return self._ready is not None

    @property
    def is_over(self) -> bool:
        """Whether no new trial is to start; ``end`` then says why."""
        if self.broken is not None:
            self.end = self.broken
        elif self._is_out_of_time:
            self.end = OUT_OF_TIME
        elif not self.study.unfinished:
            self.end = self.stopping.end(self.study.archive.trace)
        return self.end is not None

    @property
    def _is_out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def break_off(self, end: End) -> None:
        """No trial starts any more, and those that run get no row: the infrastructure ended the sweep."""
        self.end = self.broken = end

    def stop_waiting(self) -> None:
        """No other trial will come: those kept back by :meth:`next_trial` end."""
        for trial_id in [*self._waiting]:
            del self._waiting[trial_id]
            self.stopped(trial_id)

    def ask_to_end(self, trial_id: str) -> None:
        """A user wants the trial to end; nothing where it does not run, or has ended. From any thread."""
        if trial_id in {*self.display.waiting, *self.kept_back, *(row["trial_id"] for row in self.display.running)}:
            self.to_end.add(trial_id)

    def is_asked_to_end(self, trial_id: str) -> bool:
        """Whether a user wants it to."""
        return trial_id in self.to_end

    @property
    def kept_back(self) -> list[str]:
        """Trials that were waiting at a rung when the sweep was killed, and may not go on yet."""
        return [*self._waiting]

    def end_kept_back(self) -> None:
        """End those of them that a user wants to."""
        for trial_id in self.to_end & self._waiting.keys():
            del self._waiting[trial_id]
            self.stopped(trial_id)

    def is_ended_early(self, trial_id: str) -> bool:
        """Whether the scheduler, or a user, is who ended the trial."""
        return trial_id in self.to_end or (self.scheduler is not None and self.scheduler.ended_at(trial_id) is not None)

    def paused(self, trial_id: str) -> None:
        """The scheduler lets the trial wait, its state on disk."""
        if self.shares is not None:
            self.shares.paused(trial_id)
        self.display.paused(trial_id)

    def started(self, trial_id: str) -> None:
        """A worker has taken the trial."""
        spec = self._specs[trial_id]
        if self.shares is not None:
            self.shares.started(trial_id)
        row = {"spec_hash": spec.spec_hash, **spec.row()}
        self.tracker.trial_started(trial_id, row)
        self.display.started(trial_id, row)

    def reported(self, trial_id: str, report: Mapping[str, Any]) -> None:
        """An epoch is done. A restarted worker may report steps again; they are the same and are left out."""
        step = int(report["step"])
        if self.syncer is not None and report.get("stored"):
            self.syncer.stored(candidate_folder(trial_id, float(report["epoch"])))
        if step > self._last_step.get(trial_id, -1):
            self._last_step[trial_id], self._last_report[trial_id] = step, report
            self.stopping.reported(trial_id, number(report.get("epoch")))
            checkpoint = ""
            if self.front is not None and report.get("evaluated", True):
                checkpoint = self.front.checkpoint(trial_id, report["epoch"])
                self._epochs.setdefault(trial_id, []).append({"trial_id": trial_id, **report})
            self.tables.add_report(trial_id, report, checkpoint=checkpoint)
            self._write()
            self.display.reported(trial_id, report)
        if self.front is not None and report.get("evaluated", True):
            self.front.add(trial_id, report)  # last: what it deletes must be dominated by what is written
            self.display.front(len(self.front))

    def died(self, trial_id: str, text: str) -> None:
        """Ray gave the trial up, for the reason in ``text``, which with what its worker printed is kept in a file."""
        error = one_line(text or WORKER_DIED)
        with contextlib.suppress(OSError):
            error += f" (see {write_log(self.tables.out, trial_id, text or error, *worker_logs(text))})"
        self.ended(trial_id, {"status": str(Status.FAILED), "error": error})

    def ended(self, trial_id: str, outcome: Mapping[str, Any]) -> None:
        """The trial is over, however it ended; ``outcome`` has at least ``status``.

        Where the infrastructure ended it that is no result: the study waits for one, and the trial's states stay.
        """
        spec = self._specs[trial_id]
        row: Row = {"trial_id": trial_id, "spec_hash": spec.spec_hash, **spec.row(), "ended_at": time.time(), **outcome}
        self._last_report.pop(trial_id, None)
        self.to_end.discard(trial_id)
        self._measured(trial_id, spec, row)
        self.tables.add_trial(row)
        if row["status"] in RAN_TO_ITS_END:
            self._done.add(spec.spec_hash)
        if self.syncer is not None:
            self.syncer.expect(row)  # before MLflow's tracker finds the row
        self._write(urgent=True)
        epochs, no_result = self._epochs.pop(trial_id, ()), is_no_result(row["status"], row.get("error"))
        if no_result and (end := _ENDS.get(infrastructure(str(row["error"])) or "")):
            self.broken = end
        try:
            if not no_result:
                self.study.tell(trial_id, row, candidates=epochs)
                if trace := self.study.archive.trace:
                    self.display.attained(trace[-1])
        finally:
            # A study that cannot be told now, its disk full, is put right from the row when the sweep is resumed.
            if self.pace is not None:
                self.pace.ended(row)
                self.display.left(self.pace.estimate().words())
            self.display.ended(trial_id, row)
            if not no_result:
                self.forget_states(trial_id)

    def forget_states(self, trial_id: str) -> None:
        """Delete the saved states of a trial that is over: for a large model each takes gigabytes."""
        if self.syncer is not None:
            self.syncer.forget(trial_id)
        else:
            remove_run_states(self.storage, trial_id)

    def bring_models(self) -> list[str]:
        """Have what the tables name in the sweep's folder, when no worker is left; returns what has not come."""
        if self.syncer is None:
            return []
        if self.front is not None:
            self.front.remove_others()
            self.syncer.fetch(sorted(self.front.folders & self.syncer.models))
        return self.syncer.settle()

    def _measured(self, trial_id: str, spec: TrialSpec, row: Row) -> None:
        """Later trials like this one take the share of a GPU that it has shown to need."""
        if self.shares is None:
            return
        try:
            self.shares.ended(trial_id, spec, row)
            course = self.display.course
            course.resources = replace(course.resources, gpus=self.shares.widest)
            if self.pace is not None:
                self.pace.at_once = self.shares.at_once
        except Exception:
            logger.exception("the shares of the GPUs stay as they are after an error in their measuring")

    def stopped(self, trial_id: str) -> None:
        """The scheduler ended the trial: its row has the values of its last report, and names no checkpoint.

        Those of its epochs that are on the front are in candidates.csv.
        """
        report = self._last_report.get(trial_id) or self._report_on_disk(trial_id)
        told = (*OUTCOME_METRICS, "started_at", "first_step_at", "worker", "retried_with", "gpu_share", "gpu_gb")
        values = {name: report[name] for name in told if name in report}
        passed = {"steps": report.get("step"), "epochs_done": report.get("epoch")}
        self.ended(trial_id, {**values, **passed, "status": str(Status.STOPPED), "checkpoint": None, "error": None})

    def _own(self, spec_hash: str) -> CachedTrial | None:
        """A trial of this sweep that has run with these settings to its end: samplers may propose a point twice."""
        if spec_hash not in self._done or self.syncer is not None:  # its models may still be on their way here
            return None
        if spec_hash not in self._run_here:
            self._run_here = cached_trials([self.tables.out])
        return self._run_here.get(spec_hash)

    def _take_over(self, trial_id: str, known: CachedTrial) -> None:
        """Make a trial that has run before, with its history and its models, one of this sweep under its new id."""
        known.copy_files(self.tables.out, trial_id)
        if self.syncer is not None:
            self.syncer.share(trial_id)
        self.started(trial_id)
        for report in known.reports():
            self.reported(trial_id, report)
        self.stopping.forget(trial_id)  # its epochs were trained elsewhere
        self.ended(trial_id, known.outcome(trial_id))

    def put_in_order(self) -> None:
        """Sort the tables, and leave of the epochs' checkpoints those on the front; when no worker is left.

        The last epoch of a finished trial has its model in the checkpoint of the trial.
        """
        front = self.front
        if front is None:
            self.tables.sort()
            return
        front.remove_others()
        ends = {(row["trial_id"], row["steps"]): row["checkpoint"] for row in self.tables.trials.read()}

        def checkpoint(row: Mapping[str, str]) -> str:
            own = ends.get((row["trial_id"], row["step"])) or ""
            return (
                own
                if own and ((self.tables.out / own).is_dir() or (self.syncer is not None and self.syncer.has(own)))
                else front.checkpoint(row["trial_id"], float(row["epoch"]))
            )

        self.tables.sort(checkpoint)

    def _report_on_disk(self, trial_id: str) -> Mapping[str, Any]:
        """The last report of a trial that has made none since the sweep was resumed."""
        rows = [row for row in self.tables.history.read() if row["trial_id"] == trial_id]
        return max(rows, key=lambda row: int(row["step"]), default={})

    def _write(self, *, urgent: bool = False) -> None:
        try:
            self.tables.write()
        except OSError as error:
            waiting = self.tables.unwritten
            logger.warning("cannot write to %s: %s; keeping %d rows in memory", self.tables.out, error, waiting)
        self.tracker.wake()
        if self.syncer is not None:
            self.syncer.written(urgent=urgent)
