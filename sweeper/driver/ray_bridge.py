"""Connect Ray Tune to a sweep: Tune runs the sweep's trials, and the event log records the results.

A resumed sweep starts a new Tune run with the remaining trials, and does not use Tune's snapshots. A trial reports its
metrics after each epoch. For each report, Tune first calls the stopper, which records the report. Tune then calls the
scheduler, which reads the recorded report.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec

from ray.tune import Callback, Stopper
from ray.tune.search import Searcher

from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.tune_scheduler import TuneScheduler
from sweeper.execution.ray_health import StarvationCheck, worker_logs
from sweeper.store.events import TrialEnded, TrialStarted
from sweeper.store.state import Stage
from trainables.run.reports import EpochReport, Outcome, Status
from trainables.worker.failures import WORKER_DIED, one_line, write_log
from trainables.worker.ray_trainable import OUTCOME, REPORT

logger = logging.getLogger(__name__)
_P = ParamSpec("_P")


class TrialSearcher(Searcher):
    """Gives Tune the next trial of a sweep. The Tune run ends when no trial remains."""

    def __init__(self, sweep: OpenSweep, scheduler: TuneScheduler) -> None:
        super().__init__(metric=None, mode=None)
        self._sweep = sweep
        self._scheduler = scheduler

    def suggest(self, trial_id: str) -> Any:
        """Return the config of the next trial, None if no trial can start now, or FINISHED if no trial remains."""
        scheduler = self._scheduler
        controller = self._sweep.controller
        shares = self._sweep.shares
        if not scheduler.has_room() or (shares is not None and not shares.has_room()):
            return None
        trial = controller.next_trial()
        if trial is None:
            return Searcher.FINISHED if scheduler.running == 0 else None  # a running trial may lead to a promotion
        restore_from = None
        state = self._sweep.states.get(trial.id)
        if state is not None and state.step <= self._sweep.log.state.trials[trial.id].last_step:
            restore_from = state.path
        config = {"trial_id": trial.id, "spec": trial.spec.to_dict(), "restore_from": restore_from}
        if shares is None:
            return config
        gpus = shares.share_of(trial.spec)
        if not shares.has_room(gpus):
            controller.requeue(trial)
            return None
        shares.reserve(trial.id, gpus)
        return config | {"gpus": gpus}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing, because :class:`TrialRecorder` records the end of the trial."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing, because the event log stores the study."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing, because the study is restored from the event log."""


class ReportRecorder(Stopper):
    """Records each report of a trial, and stops the trials that a user asked to stop."""

    def __init__(self, sweep: OpenSweep) -> None:
        self._sweep = sweep

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Record a report. Return whether a user asked to stop the trial. ``trial_id`` is Tune's id for the trial."""
        config = result.get("config") or {}
        trial = self._sweep.log.state.trials.get(str(config.get("trial_id")))
        if trial is None:
            return False
        report: EpochReport | None = result.get(REPORT)
        if report is not None:
            _call_safely(self._sweep.controller.report, trial.id, report)
        return trial.stop_requested

    def stop_all(self) -> bool:
        return False


class TrialRecorder(Callback):
    """Records the start and the end of trials. Exceptions are only logged, because Tune would end the sweep."""

    def __init__(self, sweep: OpenSweep) -> None:
        self._sweep = sweep
        self._starvation = StarvationCheck(sweep.settings.resources, is_cluster=sweep.settings.address is not None)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Record that a worker starts or continues a trial."""
        _call_safely(self._sweep.log.record, TrialStarted(trial.config["trial_id"]))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        _call_safely(_forget_statistics, trial)
        controller, trial_id = self._sweep.controller, trial.config["trial_id"]
        outcome: Outcome | None = (trial.last_result or {}).get(OUTCOME)
        if outcome is None and controller.is_stopped_early(trial_id):
            _call_safely(controller.end_stopped, trial_id)
        else:
            no_outcome = Outcome(status=Status.FAILED, error="the trial ended without reporting an outcome")
            _call_safely(self._sweep.log.record, TrialEnded(trial_id, outcome or no_outcome))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Record the failure of a trial whose worker died too often. Save Ray's error and the worker's logs."""
        _call_safely(_forget_statistics, trial)
        trial_id = trial.config["trial_id"]
        text = _last_failure(trial)
        error = one_line(text or WORKER_DIED)
        with contextlib.suppress(OSError):
            log_file = write_log(self._sweep.out, trial_id, text or error, *worker_logs(text))
            error += f" (see {log_file})"
        _call_safely(self._sweep.log.record, TrialEnded(trial_id, Outcome(status=Status.FAILED, error=error)))

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """After each step of Tune's loop, end paused trials that a user asked to stop, and flush the event log."""
        _call_safely(self._sweep.controller.end_paused, all_trials=False)
        _call_safely(self._check_starvation)
        _call_safely(self._sweep.log.flush)

    def _check_starvation(self) -> None:
        is_running = bool(self._sweep.log.state.at_stage(Stage.RUNNING))
        self._sweep.display.starvation_message = self._starvation.message(is_running=is_running)


def _call_safely(action: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
    try:
        action(*args, **kwargs)
    except Exception:
        logger.exception("Error in a sweep callback; the sweep continues")


def _last_failure(trial: Any) -> str:
    """Return Ray's error text for the last failure of a trial."""
    try:
        text = Path(trial.error_file).read_text(encoding="utf-8", errors="replace")
    except (AttributeError, OSError, TypeError):
        text = str(trial.get_error() or "")
    failures = re.split(r"^Failure # \d+ .*$", text, flags=re.MULTILINE)
    return failures[-1].strip()


def _forget_statistics(trial: Any) -> None:
    """Delete Tune's statistics of a trial's metrics. They are unused, and take 100 kB for each ended trial."""
    metadata = getattr(trial, "run_metadata", None)
    for name in ("metric_analysis", "metric_n_steps"):
        getattr(metadata, name, {}).clear()
