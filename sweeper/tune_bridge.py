"""Between Ray Tune and the session: the searcher that hands out trials, and the callback that hears of them.

Tune only executes here. What is to run comes from the study, what has run is in the ledger, and a resumed sweep is a
new Tune run over what is left, so nothing depends on Tune's periodic snapshots of itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

from ray.tune import Callback
from ray.tune.search import Searcher

from sweeper.session import SweepSession

logger = logging.getLogger(__name__)
_P = ParamSpec("_P")


class SessionSearcher(Searcher):
    """Hands Tune the session's next trial. Ends the sweep when there is none, or when ``deadline`` has passed."""

    def __init__(
        self, session: SweepSession, *, restore_folders: Mapping[str, str], deadline: float | None = None
    ) -> None:
        super().__init__(metric=None, mode=None)
        self._session = session
        self._restore = dict(restore_folders)
        self._deadline = deadline

    def suggest(self, trial_id: str) -> Any:
        """The next trial's config for :class:`UnlearningTrainable`."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            return Searcher.FINISHED
        if (following := self._session.next_trial()) is None:
            return Searcher.FINISHED
        trial_id, spec = following[0].trial_id, following[1]
        return {"trial_id": trial_id, "spec": spec.to_dict(), "restore_from": self._restore.get(trial_id)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: the callback hears of the end together with its result and tells the study."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study is on disk already."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a resumed sweep builds its study from disk."""


class SessionCallback(Callback):
    """Passes Tune's events on. Tune would end the sweep on any exception in a callback, so each is logged."""

    def __init__(self, session: SweepSession) -> None:
        self._session = session

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
        """A run ended by itself: finished, diverged or failed."""
        outcome = (trial.last_result or {}).get("outcome") or {"status": "failed", "error": "the run left no outcome"}
        self._guard(self._session.ended, trial.config["trial_id"], outcome)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker died more often than Ray was told to restart it."""
        lines = str(trial.get_error() or "").strip().splitlines()
        text = lines[-1][:500] if lines else "the worker died"
        self._guard(self._session.ended, trial.config["trial_id"], {"status": "failed", "error": text})

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """The controller went round once."""
        self._guard(self._session.display.refresh)

    @staticmethod
    def _guard(action: Callable[_P, None], *args: _P.args, **given: _P.kwargs) -> None:
        try:
            action(*args, **given)
        except Exception:
            logger.exception("the sweep goes on after an error in its own bookkeeping")
