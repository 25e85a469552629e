"""Record a sweep in MLflow from a background thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from sweeper.followers.mlflow.artifacts import prepare_environment
from sweeper.followers.mlflow.delivery import Delivery
from sweeper.followers.mlflow.models import Checkpoints
from sweeper.followers.mlflow.runs import SweepEnd, TrackedSweep
from sweeper.followers.mlflow.store import ExperimentStore, UnavailableError, plain_reason
from sweeper.settings.tracking_uri import redact_uri
from sweeper.store.event_log import EventLog, Follower
from sweeper.store.events import Event
from sweeper.store.state import SweepState

_GATHER = 0.25  # seconds from the first event to sending, so that reports share one request
_LONGEST_PAUSE = 30.0  # seconds between two attempts while the store is down
logger = logging.getLogger(__name__)


class Tracker(Follower):
    """Records a sweep in MLflow: a run for the sweep, a child run for each trial, and a model for each kept checkpoint.

    Each event of the sweep wakes the background thread. Only :meth:`close` waits for MLflow, and no method raises
    errors of MLflow, the network or the disk.
    """

    def __init__(
        self,
        log: EventLog,
        sweep: TrackedSweep,
        store: ExperimentStore,
        checkpoints: Checkpoints,
        is_awaited: Callable[[str], bool] = lambda trial_id: False,
    ) -> None:
        prepare_environment()
        self._uri = redact_uri(store.uri)
        self._delivery = Delivery(log, sweep, store, checkpoints, is_awaited)
        self._result: str | None = None
        self._outage = ""  # why the store cannot be used
        self._wakeup = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mlflow", daemon=True)
        self._wakeup.set()
        self._thread.start()

    def apply(self, event: Event, state: SweepState) -> None:
        self._wakeup.set()

    def sweep_ended(self, end: SweepEnd) -> None:
        """Pass the final results of the sweep to the background thread, which sends them."""
        self._delivery.sweep_end = replace(end, artifacts=[path.absolute() for path in end.artifacts])
        self._wakeup.set()

    def close(self, timeout: float = 30.0) -> str:
        """Wait up to ``timeout`` seconds until all records are sent. Return a message if MLflow lacks records, or "".

        A second call sends nothing, and returns the first result.
        """
        if self._result is None:
            self._closing.set()
            self._wakeup.set()
            self._thread.join(timeout)
            if self._thread.is_alive():
                self._outage = self._outage or f"the records were not sent within {timeout:.0f} s"
                self._delivery.attempts.stopped = True
            self._result = self._pending_message()
        return self._result

    def _pending_message(self) -> str:
        pending = self._delivery.pending()
        if not pending:
            return ""
        lacks = "lacks" if self._delivery.sweep_run_id else "could not be reached and may lack"
        refusals = list(self._delivery.attempts.refused.values())
        last_refusal = refusals[-1] if refusals else "the time limit for sending records was reached"
        reason = self._outage or last_refusal
        return (
            f"MLflow at {self._uri} {lacks} {pending} of the sweep's records ({reason}). These records are in the "
            "sweep's folder; resume the sweep to send them"
        )

    def _run(self) -> None:
        is_last = False
        pause = 0.0
        while not is_last:
            if pause:
                self._closing.wait(pause)
            else:
                self._wakeup.wait()
                self._closing.wait(_GATHER)
            self._wakeup.clear()
            is_last = self._closing.is_set()
            try:
                self._delivery.send_missing(is_urgent=lambda: self._wakeup.is_set() and not self._closing.is_set())
            except Exception as error:
                pause = min(max(2 * pause, 1.0), _LONGEST_PAUSE)
                self._report_outage(error)
                continue
            if self._outage:
                logger.info("MLflow at %s can be used again", self._uri)
            pause = 0.0
            self._outage = ""

    def _report_outage(self, error: Exception) -> None:
        is_new = not self._outage
        self._outage = plain_reason(error)
        if is_new:
            logger.warning(
                "MLflow at %s cannot be used (%s). The sweep continues, and its records are sent to MLflow later",
                self._uri,
                self._outage,
            )
        if not isinstance(error, UnavailableError):
            logger.debug("a request to MLflow failed", exc_info=error)
