"""Decide which trial runs next, which trials stop, and when the sweep is over."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from search_spaces.common.messages import counted
from sweeper.search.confirmation import FreshRun
from sweeper.search.limits import End, Limits
from sweeper.search.reuse import CachedTrial, ReusableTrials
from sweeper.search.schedulers import Scheduler
from sweeper.search.study import SweepStudy
from sweeper.store.event_log import EventLog, Follower
from sweeper.store.events import (
    Event,
    Phase,
    StopRequested,
    TrialCut,
    TrialEnded,
    TrialPromoted,
    TrialProposed,
    TrialReported,
    TrialRequeued,
    TrialReused,
)
from sweeper.store.state import Stage, SweepState, Trial
from trainables.run.reports import EpochReport, Outcome, Status
from trainables.spec import TrialSpec
from trainables.worker.failures import NO_DISK, NO_SPACE, NO_STORAGE, infrastructure_failure

logger = logging.getLogger(__name__)
FULL_DISK = End("a full or failing disk")
OUT_OF_TIME = End("the time budget")
STORAGE_FAILURE = End("an object storage that rejects requests or does not respond")
_FATAL = {NO_SPACE: FULL_DISK, NO_DISK: FULL_DISK, NO_STORAGE: STORAGE_FAILURE}
"""Maps each trial error that would recur in every later trial to the reason for ending the sweep."""


class NextTrial(NamedTuple):
    id: str
    spec: TrialSpec


@dataclass(eq=False, kw_only=True)
class Controller(Follower):
    """Decides which trials of a sweep run and which stop. The state of the trials is derived from the event log.

    Attributes:
        scheduler: stops or pauses trials early; None if all trials run to the end.
        phase: the phase of the trials that start. Confirm trials start after the search.
    """

    log: EventLog
    study: SweepStudy
    make_spec: Callable[[Mapping[str, Any]], TrialSpec]
    reusable: ReusableTrials
    limits: Limits = field(default_factory=Limits)
    scheduler: Scheduler | None = None
    failure: End | None = field(default=None, init=False)
    phase: Phase = field(default=Phase.SEARCH, init=False)
    _to_confirm: deque[NextTrial] = field(default_factory=deque, init=False)
    _at_rung: dict[str, NextTrial] = field(default_factory=dict, init=False)

    def apply(self, event: Event, state: SweepState) -> None:
        """Pass the result of an ended trial of the search to the study."""
        if isinstance(event, TrialRequeued):
            self.failure = None
        elif isinstance(event, TrialEnded):
            trial = state.trials[event.trial_id]
            if trial.has_result and trial.phase is Phase.SEARCH:
                candidates = [report.values for report in trial.candidates()]
                self.study.tell(trial.id, trial.row(), candidates=candidates)
            elif (failure := infrastructure_failure(event.outcome.error or "")) in _FATAL:
                self.failure = _FATAL[failure]

    # Which trial runs next ------------------------------------------------------------------------------------------

    def next_trial(self) -> NextTrial | None:
        """Return the next trial to run, or None if no trial can start now.

        When a sweep is resumed, unfinished trials continue even if the epoch budget is used up. A paused trial
        continues only after the scheduler promotes it. If the study proposes a trial with the spec of a reusable trial,
        the proposed trial ends with a copy of that trial's result, and the study proposes another trial.

        In the phase ``confirm``, return the next trial that :meth:`confirm` has queued.
        """
        if self.phase is Phase.CONFIRM:
            return self._to_confirm.popleft() if self._to_confirm and self.failure is None else None
        if (promoted := self._pop_promoted()) is not None:
            return promoted
        while not self.is_over and (trial := self._propose()) is not None:
            reusable = self.reusable.find(trial.spec.spec_hash)
            if reusable is not None:
                self._reuse(trial.id, reusable)
            elif self.log.state.trials[trial.id].cut is not None:
                self._at_rung[trial.id] = trial
            else:
                return trial
        return self._pop_promoted()

    def requeue(self, trial: NextTrial) -> None:
        if self.log.state.trials[trial.id].phase is Phase.CONFIRM:
            self._to_confirm.appendleft(trial)
        else:
            self.study.requeue(trial.id)

    def queue_next(self) -> bool:
        """Queue the next trial without starting it. Return whether a trial is queued. Record reused results, too."""
        trial = self.next_trial()
        if trial is not None:
            self.requeue(trial)
        return trial is not None

    def _propose(self) -> NextTrial | None:
        try:
            proposal = self.study.ask()
        except OSError as error:
            logger.warning("cannot write to %s: %s; no new trial starts", self.log.path.parent, error)
            self.failure = FULL_DISK
            return None
        if proposal is None:
            return None
        trial_id, config = proposal
        spec = self.make_spec(config)
        if trial_id not in self.log.state.trials:
            settings = {"spec_hash": spec.spec_hash, **spec.row()}
            self.log.record(TrialProposed(trial_id, settings, self.study.optuna_data(trial_id)))
        return NextTrial(trial_id, spec)

    def _pop_promoted(self) -> NextTrial | None:
        trial_id = self.promote(self._at_rung)
        return None if trial_id is None else self._at_rung.pop(trial_id)

    def _reuse(self, trial_id: str, cached: CachedTrial) -> None:
        cached.copy_files(self.log.path.parent, trial_id)
        self.log.record(TrialReused(trial_id, cached.origin))
        for report in cached.reports():
            self.log.record(TrialReported(trial_id, report))
        self.log.record(TrialEnded(trial_id, cached.copied_outcome(trial_id)))

    # Trials with fresh seeds, after the search ----------------------------------------------------------------------

    def confirm(self, runs: Sequence[FreshRun]) -> None:
        """Record and queue a confirm trial for each run, after the confirm trials that have not ended.

        From now on, no trial of the search starts. A run has the configuration and the schedule of its trial.
        """
        self.phase = Phase.CONFIRM
        state = self.log.state
        for run in runs:
            trial_id = f"confirm-{len(state.trials_of(Phase.CONFIRM)):03d}"
            spec = self._fresh_spec(run)
            settings = {"spec_hash": spec.spec_hash, **spec.row()}
            self.log.record(TrialProposed(trial_id, settings, phase=Phase.CONFIRM, confirms=run.trial_id))
        queued_ids = {trial.id for trial in self._to_confirm}
        for trial in state.trials_of(Phase.CONFIRM):
            if trial.stage is Stage.PROPOSED and trial.id not in queued_ids:
                spec = self._fresh_spec(FreshRun.of(trial))
                self._to_confirm.append(NextTrial(trial.id, spec))

    @property
    def queued_confirmations(self) -> int:
        """The number of confirm trials that wait to start."""
        return len(self._to_confirm)

    def _fresh_spec(self, run: FreshRun) -> TrialSpec:
        config = self.log.state.trials[run.trial_id].search.user_attrs["config"]
        return replace(self.make_spec({**config, "seed": run.seed}), stop_epoch=run.epoch)

    # When the sweep is over -----------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether no trial starts and no waiting trial continues."""
        return self._stop is not None

    @property
    def end(self) -> End | None:
        """The reason why the sweep starts no new trials, or None while new trials can start."""
        if self._stop is None and self.study.is_exhausted:
            size = self.study.tried.size
            count = "" if size is None else f"{counted(size, 'configuration')}, "
            return End(f"the size of the search space ({count}all of which were tried)", None)
        return self._stop

    @property
    def _stop(self) -> End | None:
        if self.failure is not None or self.limits.closed is not None:
            return self.failure or self.limits.closed
        if self.limits.is_out_of_time:
            return OUT_OF_TIME
        if self.study.unfinished:
            return None
        if self.limits.reached is None:
            trace = self.study.archive.trace
            self.limits.reached = self.limits.end(trained=self.log.state.trained_epochs, trace=trace)
        return self.limits.reached

    # What happens to trials -----------------------------------------------------------------------------------------

    def report(self, trial_id: str, report: EpochReport) -> None:
        """Record a report and then the scheduler's decision, once. A report that a restarted worker repeats is ignored.

        Raises:
            KeyError: the sweep has no such trial.
        """
        trial = self.log.state.trials[trial_id]
        if report.step <= trial.last_step:
            return
        self.log.record(TrialReported(trial_id, report))
        if self.scheduler is not None and report.status is None and trial.phase is Phase.SEARCH:
            decision = self.scheduler.decide(trial, self._compared_trials())
            if decision != "continue":
                self.log.record(TrialCut(trial_id, waits=decision == "pause"))

    def promote(self, waiting: Iterable[str]) -> str | None:
        """Let the scheduler choose one of the waiting trials (ids) to continue. Return its id, or None."""
        trials = [self.log.state.trials[trial_id] for trial_id in waiting]
        if self.scheduler is None or not trials or self.is_over:
            return None
        promoted = self.scheduler.next_promoted(trials, self._compared_trials())
        if promoted is None:
            return None
        self.log.record(TrialPromoted(promoted.id))
        return promoted.id

    def _compared_trials(self) -> list[Trial]:
        return [trial for trial in self.log.state.trials_of(Phase.SEARCH) if not trial.reused_from]

    def is_stopped_early(self, trial_id: str) -> bool:
        """Return whether the scheduler or a user has stopped the trial. A paused trial counts as stopped."""
        trial = self.log.state.trials.get(trial_id)
        return trial is not None and (trial.cut is not None or trial.stop_requested)

    def request_stop(self, trial_id: str) -> None:
        """Record a user's request to stop a running or paused trial after its current epoch. Thread-safe."""
        trial = self.log.state.trials.get(trial_id)
        if trial is not None and trial.stage in (Stage.RUNNING, Stage.PAUSED):
            self.log.record(StopRequested(trial_id))

    def end_paused(self, *, all_trials: bool) -> None:
        """End the trials paused at a rung. If ``all_trials`` is False, end only those that a user asked to stop."""
        for trial_id in list(self._at_rung):
            if all_trials or self.log.state.trials[trial_id].stop_requested:
                del self._at_rung[trial_id]
                self.end_stopped(trial_id)

    def end_stopped(self, trial_id: str) -> None:
        """Record the end of a trial that was stopped early. Its outcome has the values of its last report."""
        reports = self.log.state.trials[trial_id].reports
        status = Status.STOPPED
        outcome = Outcome.after(reports[-1], status=status) if reports else Outcome(status=status)
        self.log.record(TrialEnded(trial_id, outcome))
