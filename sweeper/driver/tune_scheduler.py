"""Adapt the scheduler of a sweep to Ray Tune, which calls the scheduler after every epoch.

The event log contains the decisions of the scheduler, which :meth:`sweeper.controller.Controller.report` records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.tune.schedulers import FIFOScheduler

from sweeper.driver.open_sweep import OpenSweep
from sweeper.store.state import Stage
from trainables.run.reports import EpochReport
from trainables.worker.ray_trainable import REPORT


class TuneScheduler(FIFOScheduler):
    """Runs the scheduler of a sweep in Tune, and limits the number of concurrent trials.

    Paused trials do not count towards ``max_concurrent``, unlike in Tune's own limit.
    """

    def __init__(self, sweep: OpenSweep, *, max_concurrent: int) -> None:
        super().__init__()
        self._sweep = sweep
        self._max_concurrent = max_concurrent
        self._trials: dict[str, Any] = {}
        self._promoted_trial: Any = None

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Ignore Tune's metric and mode, because the sweep's scheduler has its own objectives."""
        return True

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        self._trials[str(trial.config["trial_id"])] = trial

    def on_trial_result(self, tune_controller: Any, trial: Any, result: Mapping[str, Any]) -> str:
        """Return the recorded decision for the trial: continue, stop or pause."""
        report: EpochReport | None = result.get(REPORT)
        state = self._sweep.log.state.trials.get(str(trial.config["trial_id"]))
        # A restarted worker may still have to repeat the reports before the decision.
        if report is None or state is None or state.cut is None or report.step < state.last_step:
            return str(self.CONTINUE)
        if not state.cut.waits:
            return str(self.STOP)
        if state.stage is not Stage.PAUSED:  # the worker was restarted before the trial's state was saved
            self._sweep.log.record(state.cut)
        return str(self.PAUSE)

    def has_room(self) -> bool:
        """Return whether a new trial may start now. A promoted trial (a paused trial that continues) starts first."""
        self._promote()
        return self._promoted_trial is None and self.running < self._max_concurrent

    @property
    def running(self) -> int:
        """The number of trials that are running or starting."""
        return sum(trial.status in ("RUNNING", "PENDING") for trial in self._trials.values())

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Return the next trial to run, or None. Promoted trials run before new trials.

        This method also stops paused trials: each trial that a user asked to stop, and all paused trials if no trial is
        running and no new trial will start.
        """
        state = self._sweep.log.state
        for trial_id, trial in self._paused().items():
            if state.trials[trial_id].stop_requested:
                tune_controller.stop_trial(trial)
        self._promote()
        if self._promoted_trial is not None:
            promoted_trial = self._promoted_trial
            self._promoted_trial = None
            return promoted_trial
        for trial in tune_controller.get_trials():
            if trial.status == "PENDING":
                return trial
        if self.running == 0 and tune_controller.search_alg.is_finished():
            for trial in self._paused().values():
                tune_controller.stop_trial(trial)
        return None

    def _promote(self) -> None:
        """If a worker is free, ask the sweep's scheduler for a paused trial to promote."""
        if self._promoted_trial is not None or self.running >= self._max_concurrent:
            return
        paused_trials = self._paused()
        trial_id = self._sweep.controller.promote(paused_trials)
        if trial_id is not None:
            self._promoted_trial = paused_trials[trial_id]

    def _paused(self) -> dict[str, Any]:
        return {trial_id: trial for trial_id, trial in self._trials.items() if trial.status == "PAUSED"}
