"""Make requests to MLflow. All requests block, so only the tracker's thread makes them.

Importing MLflow takes seconds, so this module imports MLflow only in :meth:`Store.connect`.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from search_spaces.durable import link_or_copy, staged
from sweeper.followers.mlflow.runs import (
    DELIVERED,
    PARETO,
    RECOMMENDED,
    RECOMMENDED_EPOCH,
    RECOMMENDED_TRIAL,
    NewRun,
    epoch_run_key,
)
from sweeper.settings.tracking_uri import absolute_uri, is_database, sqlite_path, tracking_problem, without_passwords

_PER_BATCH = 100  # params in one request
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""MLflow's UI calls this kind model training, and shows runs and metrics instead of traces and judges."""

_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_UPLOAD_TIMEOUT = "600"  # seconds: a server may store gigabytes elsewhere before it answers
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the tracker retries, and first looks whether a run was created
    _TIMEOUT: "15",  # seconds; with MLflow's 120 s and 7 retries one request to a dead server takes many minutes
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout is the sweep's
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
_LOG_LEVELS = {"mlflow": logging.ERROR, "mlflow.store": logging.CRITICAL, "alembic": logging.WARNING}
_set_here: set[str] = set()

_REFUSALS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE"}
"""MLflow's error codes that a repeated request would receive again."""


@dataclass(slots=True)
class StoredRun:
    """A run and what the store has of it.

    ``metrics`` are the last values; ``step`` is their last step, or None if the store was not asked yet. ``delivered``,
    ``is_on_front`` and ``recommended`` are tags. ``sent`` is the state that this session sent: "", "running", or when
    the trial ended.
    """

    id: str
    active: bool = True
    delivered: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    step: int | None = None
    is_on_front: bool = False
    recommended: bool = False
    sent: str = ""


class UnavailableError(Exception):
    """The store cannot be used now. The message is the reason, without a subject or a full stop."""


class RefusedError(Exception):
    """A record was refused, and sending the same record again would not help."""


class Store:
    """One experiment of an MLflow store.

    ``uri`` is MLflow's tracking URI; a relative path of a SQLite file is resolved now. ``artifact_root`` is the folder
    for the artifacts of an experiment that is created in a database; a server decides that itself. A new database is
    built in the folder ``build``.
    """

    def __init__(self, *, uri: str, experiment: str, artifact_root: Path, build: Path) -> None:
        self.uri = absolute_uri(uri)
        self._experiment = experiment
        self._artifact_root = artifact_root
        self._build = build.absolute()
        self._client: Any = None
        self._experiment_id = ""

    def connect(self) -> None:
        """Open the store and find or create the experiment.

        Raises UnavailableError if the URI cannot work or the experiment is deleted, and what MLflow raises.
        """
        if self._client is not None:
            return
        if problem := tracking_problem(self.uri):
            raise UnavailableError(problem)
        from mlflow import MlflowClient

        quiet_mlflow()
        if path := sqlite_path(self.uri):
            _create_database(path, build=self._build)
        client = MlflowClient(tracking_uri=self.uri)
        if (experiment := client.get_experiment_by_name(self._experiment)) is None:
            location = self._artifact_root.absolute().as_uri() if is_database(self.uri) else None
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
        self._client, self._experiment_id = client, experiment.experiment_id

    def answers(self) -> bool:
        """Return whether the store answers. If it does, a failed request was itself the cause of its error."""
        try:
            self._client.get_experiment(self._experiment_id)
        except Exception:
            return False
        return True

    def runs(self, tags: Mapping[str, str]) -> dict[str, StoredRun]:
        """Return the runs with these tags, deleted runs included, by their key."""
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
                    found[key] = StoredRun(
                        run.info.run_id,
                        active,
                        delivered=tags.get(DELIVERED),
                        metrics=dict(run.data.metrics),
                        is_on_front=tags.get(PARETO) == "true",
                        recommended=tags.get(RECOMMENDED) == "true",
                    )
        return found

    def address(self, run_id: str) -> str:
        """Return the address of the run's page, relative to MLflow's UI."""
        return f"#/experiments/{self._experiment_id}/runs/{run_id}"

    def last_step(self, run_id: str, metrics: Iterable[str]) -> int:
        """Return the last step with a value of one of these metrics, or -1."""
        points = (point for name in metrics for point in self._client.get_metric_history(run_id, name))
        return max((point.step for point in points), default=-1)

    def create_run(self, new: NewRun, tags: Mapping[str, str]) -> StoredRun:
        """Create a run with these tags besides its own."""
        tags = {**new.tags, **tags}
        run = self._client.create_run(self._experiment_id, start_time=new.at, tags=tags, run_name=new.name)
        return StoredRun(run.info.run_id, step=-1)

    def begin(self, run_id: str, new: NewRun) -> None:
        """Set the status of a new or interrupted run to running, and its parameters and tags.

        A parameter in MLflow never changes. If a resumed sweep has another value (such as more trials), the first value
        stays and the new value becomes the tag ``resumed.NAME``.
        """
        from mlflow.entities import Param

        run = self._client.get_run(run_id)
        known = run.data.params
        params = [Param(name, value) for name, value in new.params.items() if name not in known]
        for first in range(0, len(params), _PER_BATCH):
            self._client.log_batch(run_id, params=params[first : first + _PER_BATCH])
        changed = {f"resumed.{name}": value for name, value in new.params.items() if known.get(name, value) != value}
        self.set_tags(run_id, {**new.tags, **changed})
        if "error" in run.data.tags:
            self._client.delete_tag(run_id, "error")
        if run.info.status != "RUNNING":
            self._client.update_run(run_id, status="RUNNING")

    def log_metrics(self, run_id: str, points: list[tuple[str, float, int, int]]) -> None:
        """Log ``(name, value, milliseconds since 1970, step)``, up to 1,000, all or none.

        MLflow ignores a point that it has.
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

    def keep(self, run_id: str, source: Path, *, under: str) -> None:
        """Log a file or folder to a run with :func:`keep_artifact`."""
        with _upload_timeout():
            keep_artifact(self._client, run_id, source, under=under)


def keep_artifact(client: Any, run_id: str, source: Path, *, under: str) -> None:
    """Log a file or folder to a run, in the folder ``under`` of its artifacts ("" for the top).

    If artifacts are in a local folder, the files of a folder are hard-linked there, so that a checkpoint of gigabytes
    costs neither time nor space. Between file systems they are copied. A single file is always copied: tables and
    figures are rewritten by the next resume, and the artifact must not change with them.

    Raises FileNotFoundError if ``source`` does not exist, OSError if the disk refuses, and what MLflow raises.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source} no longer exists")
    artifacts = urlsplit(client.get_run(run_id).info.artifact_uri)
    if artifacts.scheme in ("", "file"):
        target = Path(unquote(artifacts.path)) / under
        if source.is_dir():
            shutil.copytree(source, target, copy_function=link, dirs_exist_ok=True)
        else:
            with staged(target / source.name) as staging:
                shutil.copy2(source, staging)
    elif source.is_dir():
        client.log_artifacts(run_id, str(source), under or None)
    else:
        client.log_artifact(run_id, str(source), under or None)


def link(source: str, target: str) -> None:
    """Hard-link the file ``source`` to ``target``, or copy it if the file system has no links."""
    path = Path(target)
    if not (path.exists() and path.samefile(source)):
        with staged(path) as staging:
            link_or_copy(source, staging)


def prepare_environment() -> None:
    """Set MLflow's request limits for this process, except those that the user has set.

    Called once, by the thread that creates the tracker: removing variables from another thread is not safe.
    """
    for name, value in _ENVIRONMENT.items():
        if name not in os.environ:
            os.environ[name] = value
            _set_here.add(name)


def quiet_mlflow() -> None:
    """Silence MLflow's logs, because the caller reports errors and other lines would break the progress display."""
    for name, level in _LOG_LEVELS.items():
        logging.getLogger(name).setLevel(level)


def is_refusal(error: Exception) -> bool:
    """Return whether a working store would refuse the same request again."""
    return isinstance(error, RefusedError | FileNotFoundError) or getattr(error, "error_code", None) in _REFUSALS


def plain_reason(error: BaseException) -> str:
    """Return in a few words why a request failed: the system's reason if the chain has one, else the first line."""
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
def _upload_timeout() -> Iterator[None]:
    # Only the value changes, and only if it is ours: other threads may be reading the environment.
    if _TIMEOUT not in _set_here:
        yield
        return
    os.environ[_TIMEOUT] = _UPLOAD_TIMEOUT
    try:
        yield
    finally:
        os.environ[_TIMEOUT] = _ENVIRONMENT[_TIMEOUT]


def _create_database(path: Path, *, build: Path) -> None:
    """Create an empty MLflow database in one step. An existing file stays as it is.

    MLflow creates a database by about fifty migrations in two seconds. If they are killed, the file can be neither used
    nor repaired ("duplicate column name"). So the migrations run in the folder ``build``, which is emptied before and
    removed after, and the result appears at ``path`` at once.
    """
    if path.exists():
        return
    from mlflow import MlflowClient

    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    built = build / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{built}").search_experiments(max_results=1)
    with (
        staged(path, keep_existing=True) as staging,  # another sweep may be faster
        closing(sqlite3.connect(built)) as source,
        closing(sqlite3.connect(staging)) as target,
    ):
        source.backup(target)
    shutil.rmtree(build, ignore_errors=True)
