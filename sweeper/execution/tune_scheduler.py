"""A sweep's scheduler as Ray Tune's: it is asked after every epoch, and who waits is paused with its state on disk.

Tune keeps no state of it: a resumed sweep tells a new one what history.csv says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ray.tune.schedulers import TrialScheduler

from sweeper.search.schedulers import Scheduler

logger = logging.getLogger(__name__)
_ANSWERS = {"continue": TrialScheduler.CONTINUE, "stop": TrialScheduler.STOP, "pause": TrialScheduler.PAUSE}


class TuneScheduler(TrialScheduler):
    """Drives a :class:`~sweeper.search.schedulers.Scheduler`.

    Args:
        scheduler: who decides.
        columns: the columns of a report that it compares.
        at_once: at most this many trials run at the same time; paused ones do not count.
        is_over: whether the sweep's time or epochs are spent, so that no paused trial goes on.
        on_pause: hears which trial is being paused.
        is_to_end: whether a user wants a trial to end, be it paused.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        columns: Sequence[str],
        *,
        at_once: int,
        is_over: Callable[[], bool] = lambda: False,
        on_pause: Callable[[str], None] = lambda trial_id: None,
        is_to_end: Callable[[str], bool] = lambda trial_id: False,
    ) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._columns = tuple(columns)
        self._at_once = at_once
        self._is_over = is_over
        self._on_pause = on_pause
        self._is_to_end = is_to_end
        self._trials: dict[str, Any] = {}
        self._promoted: Any = None

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Nothing: it has its own objectives, and Tune wants no list of them."""
        return True

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """A new trial is there."""
        self._trials[str(trial.config["trial_id"])] = trial

    def on_trial_result(self, tune_controller: Any, trial: Any, result: Mapping[str, Any]) -> str:
        """An epoch is done. An error of the scheduler costs its decision, not the sweep."""
        try:
            trial_id, epoch = str(trial.config["trial_id"]), result.get("report/epoch")
            if epoch is None:
                return str(TrialScheduler.CONTINUE)
            values = [result.get(f"report/{column}") for column in self._columns]
            answer = self._scheduler.judge(trial_id, float(epoch), values)
            if answer == "pause":
                self._on_pause(trial_id)
            return str(_ANSWERS[answer])
        except Exception:
            logger.exception("the trial goes on after an error in the scheduler")
            return str(TrialScheduler.CONTINUE)

    def has_room(self) -> bool:
        """Whether a new trial may start: a worker is free, and no paused trial has a better claim to it."""
        self._promote()
        return self._promoted is None and self.running < self._at_once

    @property
    def running(self) -> int:
        """How many trials run or are about to."""
        return sum(trial.status in ("RUNNING", "PENDING") for trial in self._trials.values())

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """A paused trial whose rank allows it to go on, else the next new one.

        When there is nothing else to run and no new trial will come, what is still paused ends; before that what a user
        wants to.
        """
        for trial_id, trial in self._paused().items():
            if self._is_to_end(trial_id):
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
        """Let a paused trial go on, where one may and a worker is free."""
        if self._promoted is not None or self.running >= self._at_once or self._is_over():
            return
        paused = self._paused()
        if (trial_id := self._scheduler.next_promotion([*paused])) is not None:
            self._promoted = paused[trial_id]

    def _paused(self) -> dict[str, Any]:
        return {trial_id: trial for trial_id, trial in self._trials.items() if trial.status == "PAUSED"}

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Nothing: what it reported stays known."""

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: Mapping[str, Any]) -> None:
        """Nothing: every epoch was heard of."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Nothing: what it reported stays known."""

    def debug_string(self) -> str:
        """For Tune's own output, which is off."""
        return "multi-objective scheduler"

    def save(self, checkpoint_path: str) -> None:
        """Nothing: history.csv has it all."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a resumed sweep builds its scheduler from history.csv."""
