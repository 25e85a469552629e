"""The MLflow calls a sweep needs, on run ids of our own keeping.

All of them block; only the tracker's thread makes them. MLflow takes seconds to import, so nothing here imports it
before :meth:`Store.connect`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.followers.mlflow.artifacts import keep_artifact
from sweeper.followers.mlflow.database import make_database
from sweeper.followers.mlflow.logged import LoggedData, log_data, log_model
from sweeper.followers.mlflow.runs import epoch_run_key
from sweeper.settings.tracking_uri import is_database, sqlite_path, tracking_problem, without_passwords

_PER_BATCH = 100  # params in one request

DELIVERED = "delivered"
"""The tag of a trial's run that has everything."""

PARETO, EPOCHS, CHECKPOINTS = "pareto", "pareto_epochs", "pareto_checkpoints"
"""The tags of a trial's run that say whether it is on the frontier, with which epochs, and where their models are."""

RECOMMENDED = "recommended"
"""The tag of the run that holds the model that the sweep recommends; ``false`` on one that no longer does."""

RECOMMENDED_TRIAL, RECOMMENDED_EPOCH = "recommended_trial", "recommended_epoch"
"""The tags that identify, within a sweep, the run of a recommended epoch that is not the end of its trial."""

_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""What MLflow's UI calls model training: it shows runs and metrics, not traces and judges."""

_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_UPLOAD_TIMEOUT = "600"  # seconds: a server may store gigabytes elsewhere before it answers
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the tracker retries by itself, and looks first whether a run was made
    _TIMEOUT: "15",  # seconds; MLflow's 120 with 7 retries keeps a dead server alive for many minutes
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout is the sweep's
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
_LOG_LEVELS = {"mlflow": logging.ERROR, "mlflow.store": logging.CRITICAL, "alembic": logging.WARNING}
_set_here: set[str] = set()

_REFUSALS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE"}
"""MLflow's error codes that the same request will meet again."""


@dataclass(slots=True)
class StoredRun:
    """A run and what the store has of it: last values and last step of its metrics (None: it has not been asked).

    ``delivered`` is the end of the trial that the store has whole, as the tables's column ``ended_at`` tells it,
    ``front`` the epochs that it has tagged to be on the frontier, ``recommended`` whether it is tagged as the answer.
    """

    id: str
    active: bool
    delivered: str | None
    metrics: dict[str, float]
    step: int | None
    front: str | None = None
    recommended: bool = False


class UnavailableError(Exception):
    """The store cannot be used now; the message says why, as the end of a sentence."""


class RefusedError(Exception):
    """A record that cannot be delivered as things are, however well the store is."""


def prepare_environment() -> None:
    """Set MLflow's request limits for this process, except those the user has set.

    Called once, by the thread that makes the tracker: removing variables from another thread is not safe.
    """
    for name, value in _ENVIRONMENT.items():
        if name not in os.environ:
            os.environ[name] = value
            _set_here.add(name)


def quiet_mlflow() -> None:
    """What goes wrong is said once, by who asks MLflow; its own lines would tear the live display."""
    for name, level in _LOG_LEVELS.items():
        logging.getLogger(name).setLevel(level)


class Store:
    """One experiment of an MLflow store; ``workshop`` is a folder of the sweep's where a new database is built."""

    def __init__(self, *, uri: str, experiment: str, artifact_root: Path, workshop: Path) -> None:
        self._uri = uri
        self._experiment = experiment
        self._artifact_root = artifact_root
        self._workshop = workshop
        self._client: Any = None
        self._experiment_id = ""

    def connect(self) -> None:
        """Open the store and find or create the experiment.

        Raises UnavailableError when the URI cannot work or the experiment is deleted, and what MLflow raises.
        """
        if self._client is not None:
            return
        if problem := tracking_problem(self._uri):
            raise UnavailableError(problem)
        from mlflow import MlflowClient

        quiet_mlflow()
        if path := sqlite_path(self._uri):
            make_database(path, workshop=self._workshop)
        client = MlflowClient(tracking_uri=self._uri)
        if (experiment := client.get_experiment_by_name(self._experiment)) is None:
            location = self._artifact_root.absolute().as_uri() if is_database(self._uri) else None
            try:
                client.create_experiment(self._experiment, artifact_location=location, tags=_KIND)
            except Exception as error:  # another sweep was faster
                if getattr(error, "error_code", None) != "RESOURCE_ALREADY_EXISTS":
                    raise
            experiment = client.get_experiment_by_name(self._experiment)
        if experiment.lifecycle_stage != "active":
            raise UnavailableError(
                f"experiment '{self._experiment}' is deleted there: restore it with `mlflow experiments restore "
                f"--experiment-id {experiment.experiment_id}` or name another experiment"
            )
        for name in _KIND.keys() - experiment.tags.keys():
            client.set_experiment_tag(experiment.experiment_id, name, _KIND[name])
        self._client, self._experiment_id = client, experiment.experiment_id

    def answers(self) -> bool:
        """Whether the store works at all, so that an error is the request's own."""
        try:
            self._client.get_experiment(self._experiment_id)
        except Exception:
            return False
        return True

    def runs(self, tags: Mapping[str, str]) -> dict[str, StoredRun]:
        """The runs with these tags, deleted ones too, by trial id; by :func:`epoch_run_key` if they have none."""
        from mlflow.entities import ViewType

        query = " and ".join(f"tags.{name} = '{value}'" for name, value in tags.items())
        found: dict[str, StoredRun] = {}
        token: str | None = ""
        while token is not None:
            page = self._client.search_runs([self._experiment_id], query, ViewType.ALL, page_token=token or None)
            token = page.token or None
            for run in page:
                tags, active = run.data.tags, run.info.lifecycle_stage == "active"
                key = tags.get("trial_id") or epoch_run_key(tags[RECOMMENDED_TRIAL], tags[RECOMMENDED_EPOCH])
                if active or key not in found:
                    front = tags.get(EPOCHS) if tags.get(PARETO) == "true" else None
                    found[key] = StoredRun(
                        *(run.info.run_id, active, tags.get(DELIVERED), dict(run.data.metrics)),
                        step=None,
                        front=front,
                        recommended=tags.get(RECOMMENDED) == "true",
                    )
        return found

    def address(self, run_id: str) -> str:
        """The address of the run's page, relative to MLflow's UI."""
        return f"#/experiments/{self._experiment_id}/runs/{run_id}"

    def last_step(self, run_id: str, metrics: Iterable[str]) -> int:
        """The last step the run has one of these metrics of; -1 where it has none."""
        points = (point for name in metrics for point in self._client.get_metric_history(run_id, name))
        return max((point.step for point in points), default=-1)

    def create_run(self, *, name: str, tags: Mapping[str, str], at: int) -> StoredRun:
        """A new run; ``at`` in milliseconds since 1970."""
        run = self._client.create_run(self._experiment_id, start_time=at, tags=dict(tags), run_name=name)
        return StoredRun(run.info.run_id, active=True, delivered=None, metrics={}, step=-1)

    def begin(self, run_id: str, *, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Make a new or interrupted run running, with these parameters and tags.

        A parameter in MLflow never changes: where a resumed sweep has another value (more trials, say), the first
        stays and the new one becomes the tag ``resumed.NAME``.
        """
        from mlflow.entities import Param

        run = self._client.get_run(run_id)
        known = run.data.params
        new = [Param(name, value) for name, value in params.items() if name not in known]
        for first in range(0, len(new), _PER_BATCH):
            self._client.log_batch(run_id, params=new[first : first + _PER_BATCH])
        changed = {f"resumed.{name}": value for name, value in params.items() if known.get(name, value) != value}
        self.set_tags(run_id, {**tags, **changed})
        if "error" in run.data.tags:
            self._client.delete_tag(run_id, "error")
        if run.info.status != "RUNNING":
            self._client.update_run(run_id, status="RUNNING")

    def log_metrics(self, run_id: str, points: list[tuple[str, float, int, int]]) -> None:
        """Log ``(name, value, milliseconds since 1970, step)``, up to 1,000, all or none.

        A point the store has is not logged twice.
        """
        from mlflow.entities import Metric

        if points:
            self._client.log_batch(run_id, metrics=[Metric(*point) for point in points])

    def end(self, run_id: str, *, status: str, tags: Mapping[str, str], at: int) -> None:
        """Set the last tags and MLflow's status: FINISHED, FAILED or KILLED."""
        self.set_tags(run_id, tags)
        self._client.set_terminated(run_id, status, end_time=at)

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set or change tags."""
        from mlflow.entities import RunTag

        self._client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])

    def use_data(self, run_id: str, data: LoggedData) -> None:
        """See :func:`sweeper.followers.mlflow.logged.log_data`."""
        log_data(self._client, run_id, data)

    def keep_model(self, run_id: str, source: Path, **given: Any) -> None:
        """See :func:`sweeper.followers.mlflow.logged.log_model`."""
        log_model(self._client, run_id, source, **given)

    def keep(self, run_id: str, source: Path, *, under: str) -> None:
        """See :func:`sweeper.followers.mlflow.artifacts.keep_artifact`."""
        with _patience():
            keep_artifact(self._client, run_id, source, under=under)


def is_refusal(error: Exception) -> bool:
    """Whether the same request would be refused again, however well the store is."""
    return isinstance(error, RefusedError | FileNotFoundError) or getattr(error, "error_code", None) in _REFUSALS


def plain_reason(error: BaseException) -> str:
    """Why a request failed, in a few words: the system's where it is in the chain of causes, else the first line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return "no answer in time"
        if isinstance(cause, ConnectionError) and not cause.strerror:
            return "connection lost"
        if isinstance(cause, OSError) and cause.strerror:
            place = f": {cause.filename}" if cause.filename else ""
            return cause.strerror[:1].lower() + cause.strerror[1:] + place
        cause = cause.__cause__ or cause.__context__
    lines = str(error).strip().splitlines()
    return without_passwords(lines[0][:300]) if lines else type(error).__name__


@contextmanager
def _patience() -> Iterator[None]:
    # Only the value changes, and only where it is ours: other threads may be reading the environment.
    if _TIMEOUT not in _set_here:
        yield
        return
    os.environ[_TIMEOUT] = _UPLOAD_TIMEOUT
    try:
        yield
    finally:
        os.environ[_TIMEOUT] = _ENVIRONMENT[_TIMEOUT]
