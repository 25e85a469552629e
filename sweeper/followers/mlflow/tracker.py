"""The thread that has MLflow follow the tables, again and again until it has everything, and never waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from sweeper.followers.mlflow.delivery import Delivery, SweepEnd
from sweeper.followers.mlflow.logged import LoggedData
from sweeper.followers.mlflow.notices import Notices
from sweeper.followers.mlflow.runs import NO_DATA, NewRun, Recommendation, fit_params, fit_tags, milliseconds
from sweeper.followers.mlflow.store import Store, UnavailableError, plain_reason, prepare_environment
from sweeper.settings.tracking_uri import absolute_uri, shown_uri
from sweeper.store.tables import ResultTables

_GATHER = 0.25  # seconds from the first news to sending, so that reports travel in one request
_LONGEST_PAUSE = 30.0  # seconds between two attempts on a store that is down


@dataclass(frozen=True, slots=True)
class TrackingSummary:
    """What became of the tables's rows: ``pending`` for the next session.

    ``message`` is one sentence for the user when something is pending, else None; ``run_id`` is the parent run's.
    """

    pending: int
    message: str | None
    run_id: str | None


class Tracker:
    """Keeps a sweep in MLflow: one parent run, one child run per trial, and a run below it for a recommended epoch.

    The tables is the truth, and MLflow follows it: no method does more than wake a thread, and none waits for MLflow,
    the network or the disk, or raises on their account. A tracker of a resumed sweep goes on in the runs with the same
    ``sweep_id`` and first sends what is in the tables and not in them. Metrics of a trial go forward in steps: what a
    trial that goes on from a saved state reports again is not sent again.

    ``uri`` is MLflow's tracking URI; the path of a SQLite file is resolved now. ``artifact_root`` is where artifacts
    of an experiment lie that this tracker creates in a database; a server decides that by itself. ``data`` is what
    trials are trained on, by the seed of the data; the first of them is the sweep's. ``is_awaited`` says of which
    trials files have still to come into the folder.
    """

    def __init__(
        self,
        *,
        tables: ResultTables,
        sweep_id: str,
        uri: str,
        experiment: str,
        sweep_name: str,
        parent_params: Mapping[str, object],
        parent_tags: Mapping[str, str],
        artifact_root: Path,
        data: Mapping[str, LoggedData] = NO_DATA,
        is_awaited: Callable[[str], bool] = lambda trial_id: False,
    ) -> None:
        prepare_environment()
        uri = absolute_uri(uri)
        self._shown_uri = shown_uri(uri)
        self._summary: TrackingSummary | None = None
        self._reason = ""
        self._pause = 0.0
        self._news = threading.Event()
        self._closing = threading.Event()
        self._abandoned = threading.Event()
        self._notices = Notices()
        tags = {**parent_tags, "sweep": sweep_name, "status": "running"}
        self._delivery = Delivery(
            tables=tables,
            is_awaited=is_awaited,
            store=Store(
                uri=uri,
                experiment=experiment,
                artifact_root=artifact_root,
                workshop=tables.out.absolute() / ".new-mlflow-database",
            ),
            sweep_id=sweep_id,
            sweep=NewRun(
                sweep_name,
                fit_params(parent_params),
                fit_tags(tags),
                milliseconds(None),
                next(iter(data.values()), None),
            ),
            data=data,
            notices=self._notices,
            hurry=lambda: self._news.is_set() and not self._closing.is_set(),
            stopped=self._abandoned.is_set,
        )
        self._thread = threading.Thread(target=self._run, name="mlflow", daemon=True)
        self._news.set()
        self._thread.start()

    def wake(self) -> None:
        """The tables has new rows."""
        self._news.set()

    def trial_started(self, trial_id: str, row: Mapping[str, object]) -> None:
        """A trial of this spec begins, or goes on after an interruption. Its reports and its end are in the tables."""
        self._delivery.trial_started(trial_id, row)
        self._news.set()

    def sweep_ended(
        self,
        *,
        status: str,
        metrics: Mapping[str, object],
        artifacts: Sequence[Path] = (),
        tags: Mapping[str, object] = MappingProxyType({}),
        front: Mapping[str, Mapping[str, str]] | None = None,
        recommended: Recommendation | None = None,
        picture: str | None = None,
    ) -> None:
        """The sweep is over (finished, interrupted or failed); files and folders are kept with the parent run.

        ``front``: by trial id its epochs on the frontier, each with the place of its checkpoint, or None if the
        frontier is not known: then no trial's tags change; ``recommended``: the model to take; ``picture``: the
        artifact that is shown in the description.
        """
        kept = [path.absolute() for path in artifacts]
        self._delivery.sweep_end = SweepEnd(
            status, dict(metrics), kept, dict(tags), front, recommended=recommended, picture=picture
        )
        self._news.set()

    def close(self, timeout: float = 30.0) -> TrackingSummary:
        """Send what is left for up to ``timeout`` seconds and say what became of it. Later calls send nothing.

        A store that is down gets one more attempt.
        """
        if self._summary is None:
            self._closing.set()
            self._news.set()
            self._thread.join(timeout)
            if self._thread.is_alive():
                self._reason = self._reason or f"not done within {timeout:.0f} s"
                self._abandoned.set()
            pending = self._delivery.pending()
            self._summary = TrackingSummary(pending, self._message(pending), self._delivery.sweep_run_id)
        return self._summary

    def _message(self, pending: int) -> str | None:
        if not pending:
            return None
        lacks = "does not have" if self._delivery.asked else "could not be asked whether it has"
        reason = self._reason or self._delivery.refusal or "no time was left"
        return (
            f"MLflow at {self._shown_uri} {lacks} {pending} of the sweep's records ({reason}); "
            "they are in the sweep's folder, and resuming the sweep sends them"
        )

    def _run(self) -> None:
        last = False
        while not last:
            if self._pause:
                self._closing.wait(self._pause)
            else:
                self._news.wait()
                self._closing.wait(_GATHER)
            self._news.clear()
            last = self._closing.is_set()
            try:
                self._delivery.follow()
            except Exception as error:
                self._wait_longer(error)
            else:
                self._pause, self._reason = 0.0, ""
                self._notices.over("unavailable", f"MLflow at {self._shown_uri} answers again")

    def _wait_longer(self, error: Exception) -> None:
        self._pause = min(max(2 * self._pause, 1.0), _LONGEST_PAUSE)
        self._reason = plain_reason(error)
        self._notices.warn(
            "unavailable",
            f"MLflow at {self._shown_uri} cannot be used ({self._reason}); the sweep goes on, and MLflow gets its "
            "records later",
        )
        if not isinstance(error, UnavailableError):
            logging.getLogger(__name__).debug("sending to MLflow failed", exc_info=error)
