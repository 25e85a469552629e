"""Between Ray Tune and the session: the searcher that hands out trials, and the callback that hears of them.

Tune only executes here. What is to run comes from the study, what has run is in the tables, and a resumed sweep is a
new Tune run over what is left, so nothing depends on Tune's periodic snapshots of itself.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec

from ray.tune import Callback, Stopper
from ray.tune.search import Searcher

from sweeper.execution.ray_health import StarvationCheck
from sweeper.execution.tune_scheduler import TuneScheduler
from sweeper.session import SweepSession

logger = logging.getLogger(__name__)
_P = ParamSpec("_P")


def what_runs_when(
    session: SweepSession,
    *,
    left: int,
    at_once: int,
    columns: Sequence[str],
    pausing: bool,
    restore_folders: Mapping[str, str],
) -> dict[str, Any]:
    """The part of Tune's configuration that says so: the session's ``left`` trials, ``at_once`` at a time.

    ``columns`` are what the session's scheduler compares. Where trials are ``pausing`` Tune's own limits would count
    those that wait: the scheduler keeps them instead, and the searcher ends the sweep.
    """
    gate = None
    if session.scheduler is not None:
        gate = TuneScheduler(
            session.scheduler,
            columns,
            at_once=at_once,
            is_over=lambda: session.is_over,
            on_pause=session.paused,
            is_to_end=session.is_asked_to_end,
        )
    searcher = SessionSearcher(session, restore_folders=restore_folders, gate=gate if pausing else None)
    if pausing:  # else Tune starts one worker after the other, each when the one before is there
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(at_once)
    return {
        "search_alg": searcher,
        "scheduler": gate,
        "num_samples": -1 if pausing else left,
        "max_concurrent_trials": None if pausing else at_once,
    }


class SessionSearcher(Searcher):
    """Hands Tune the session's next trial. Ends the sweep when there is none.

    With a ``gate``, a scheduler under which trials wait, a new one comes when that has room, and the sweep ends when
    none runs any more.
    """

    def __init__(
        self,
        session: SweepSession,
        *,
        restore_folders: Mapping[str, str],
        gate: TuneScheduler | None = None,
    ) -> None:
        super().__init__(metric=None, mode=None)
        self._session = session
        self._restore = dict(restore_folders)
        self._gate = gate

    def suggest(self, trial_id: str) -> Any:
        """The next trial's config for :class:`UnlearningTrainable`."""
        gate = self._gate
        if gate is not None and not gate.has_room():
            return None
        shares = self._session.shares
        if shares is not None and not shares.has_room():
            return None
        if (following := self._session.next_trial()) is None:
            return Searcher.FINISHED if gate is None or gate.running == 0 else None
        trial_id, spec = following[0].trial_id, following[1]
        config = {"trial_id": trial_id, "spec": spec.to_dict(), "restore_from": self._restore.get(trial_id)}
        if shares is None:
            return config
        if not shares.has_room(gpus := shares.share_of(spec)):
            self._session.put_back(following)
            return None
        shares.take(trial_id, gpus)
        return config | {"gpus": gpus}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: the callback hears of the end together with its result and tells the study."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study is on disk already."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a resumed sweep builds its study from disk."""


class AskedToEnd(Stopper):
    """Tells Tune with a trial's report that a user wants the trial to end."""

    def __init__(self, session: SweepSession) -> None:
        self._session = session

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether this is the trial's last report; ``trial_id`` is Tune's, the trial's own is in its config."""
        return self._session.is_asked_to_end(str((result.get("config") or {}).get("trial_id")))

    def stop_all(self) -> bool:
        """Never: a whole sweep is stopped as by Ctrl-C."""
        return False


class SessionCallback(Callback):
    """Passes Tune's events on. Tune would end the sweep on any exception in a callback, so each is logged."""

    def __init__(self, session: SweepSession, idle: StarvationCheck | None = None) -> None:
        self._session = session
        self._idle = idle

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker took a trial."""
        self._guard(self._session.started, trial.config["trial_id"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """An epoch is done."""
        if report := result.get("report"):
            self._guard(self._session.reported, trial.config["trial_id"], report)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A run ended by itself, finished, diverged or failed, or the scheduler ended it."""
        self._guard(_forget_statistics, trial)
        trial_id, outcome = trial.config["trial_id"], (trial.last_result or {}).get("outcome")
        if outcome is None and self._session.is_ended_early(trial_id):
            self._guard(self._session.stopped, trial_id)
            return
        outcome = outcome or {"status": "failed", "error": "the run left no outcome"}
        self._guard(self._session.ended, trial_id, outcome)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker died more often than Ray was told to restart it."""
        self._guard(_forget_statistics, trial)
        self._guard(self._session.died, trial.config["trial_id"], _last_failure(trial))

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """The controller went round once."""
        self._guard(self._session.end_kept_back)
        if self._idle is not None:
            self._guard(self._check_starvation, self._idle)
        self._guard(self._session.display.refresh)

    def _check_starvation(self, check: StarvationCheck) -> None:
        display = self._session.display
        display.idle = check.message(is_running=bool(display.running))

    @staticmethod
    def _guard(action: Callable[_P, None], *args: _P.args, **given: _P.kwargs) -> None:
        try:
            action(*args, **given)
        except Exception:
            logger.exception("the sweep goes on after an error in its own bookkeeping")


def _last_failure(trial: Any) -> str:
    """What Ray wrote of the last failure: at first it is in Tune's local folder only, and goes to the storage later."""
    text = ""
    try:
        text = Path(trial.error_file).read_text(encoding="utf-8", errors="replace")
    except (AttributeError, OSError, TypeError):
        text = str(trial.get_error() or "")
    return re.split(r"^Failure # \d+ .*$", text, flags=re.MULTILINE)[-1].strip()


def _forget_statistics(trial: Any) -> None:
    """Tune keeps running means of everything reported, 100 kB for each trial that is over, and nobody asks for them."""
    known = getattr(trial, "run_metadata", None)
    for name in ("metric_analysis", "metric_n_steps"):
        getattr(known, name, {}).clear()
