"""A sweep's scheduler as Ray Tune's: asked after every epoch; a trial that must wait is paused with its state on disk.

Tune keeps no state of it: a resumed sweep replays its event log to a new scheduler.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ray.tune.schedulers import TrialScheduler

from sweeper.controller import Controller
from sweeper.store.events import Kind

logger = logging.getLogger(__name__)
_ANSWERS = {"continue": TrialScheduler.CONTINUE, "stop": TrialScheduler.STOP, "pause": TrialScheduler.PAUSE}


class TuneScheduler(TrialScheduler):
    """Drives the scheduler of a sweep's controller. At most ``max_concurrent`` trials run; paused ones do not count."""

    def __init__(self, controller: Controller, *, max_concurrent: int) -> None:
        super().__init__()
        assert controller.scheduler is not None
        self._controller = controller
        self._scheduler = controller.scheduler
        self._max_concurrent = max_concurrent
        self._trials: dict[str, Any] = {}
        self._promoted: Any = None

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Return True: the scheduler has its own objectives."""
        return True

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Remember a new trial."""
        self._trials[str(trial.config["trial_id"])] = trial

    def on_trial_result(self, tune_controller: Any, trial: Any, result: Mapping[str, Any]) -> str:
        """Return what happens to the trial after an epoch. After an error in the scheduler the trial continues."""
        try:
            trial_id = str(trial.config["trial_id"])
            if result.get("report/epoch") is None:
                return str(TrialScheduler.CONTINUE)
            answer = self._scheduler.judge(trial_id, self._controller.log.state.trials[trial_id].reports[-1])
            if answer == "pause":
                self._controller.log.record(Kind.TRIAL_PAUSED, trial_id)
            return str(_ANSWERS[answer])
        except Exception:
            logger.exception("Error in the scheduler; the trial continues")
            return str(TrialScheduler.CONTINUE)

    def has_room(self) -> bool:
        """Return whether a new trial may start: a worker is free, and no paused trial is promoted to it."""
        self._promote()
        return self._promoted is None and self.running < self._max_concurrent

    @property
    def running(self) -> int:
        """The number of trials that run or are about to."""
        return sum(trial.status in ("RUNNING", "PENDING") for trial in self._trials.values())

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Return a paused trial that is promoted, otherwise the next new trial.

        Paused trials end if a user stops them, or if nothing runs and no new trial will come.
        """
        state = self._controller.log.state
        for trial_id, trial in self._paused().items():
            if state.trials[trial_id].stop_requested:
                tune_controller.stop_trial(trial)
        self._promote()
        if self._promoted is not None:
            chosen, self._promoted = self._promoted, None
            return chosen
        for trial in tune_controller.get_trials():
            if trial.status == "PENDING":
                return trial
        if self.running == 0 and tune_controller.search_alg.is_finished():
            for trial in self._paused().values():
                tune_controller.stop_trial(trial)
        return None

    def _promote(self) -> None:
        """Choose a paused trial to continue, if one may and a worker is free."""
        if self._promoted is not None or self.running >= self._max_concurrent or self._controller.is_over:
            return
        paused = self._paused()
        if (trial_id := self._scheduler.scheduler.next_promotion([*paused])) is not None:
            self._promoted = paused[trial_id]

    def _paused(self) -> dict[str, Any]:
        return {trial_id: trial for trial_id, trial in self._trials.items() if trial.status == "PAUSED"}

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Nothing: the trial's reports stay known."""

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: Mapping[str, Any]) -> None:
        """Nothing: every epoch was reported."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Nothing: the trial's reports stay known."""

    def debug_string(self) -> str:
        """Return a text for Tune's own output, which is off."""
        return "multi-objective scheduler"

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the event log has every report."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a resumed sweep replays its event log."""
