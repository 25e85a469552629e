"""Make requests to MLflow. Requests block the calling thread, so a sweep makes them only in the tracker's thread.

Importing MLflow takes seconds, so functions of this module import MLflow only when needed.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from search_spaces.common.durable import link_or_copy, staged
from sweeper.followers.mlflow.runs import RECOMMENDED_EPOCH, RECOMMENDED_TRIAL, NewRun, epoch_run_key
from sweeper.settings.tracking_uri import (
    absolute_uri,
    is_database,
    sqlite_path,
    sqlite_uri,
    tracking_problem,
    without_passwords,
)

_PER_BATCH = 100  # params in one request
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""The tag with which MLflow's UI shows training runs instead of LLM traces."""

_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_UPLOAD_TIMEOUT = "600"  # seconds: a server may store gigabytes elsewhere before it answers
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the tracker retries, and first checks whether MLflow created the run
    _TIMEOUT: "15",  # seconds; with MLflow's 120 s and 7 retries, a request to a dead server takes many minutes
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout has only the command's results
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
_LOG_LEVELS = {"mlflow": logging.ERROR, "mlflow.store": logging.CRITICAL, "alembic": logging.WARNING}

_REFUSALS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE"}
"""MLflow's error codes for requests that would fail again."""


@dataclass(slots=True)
class StoredRun:
    """A run that MLflow has stored. ``step`` is the largest step of the run's metrics, or -1 without metrics."""

    id: str
    active: bool = True
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    step: int = -1
    sent: str = ""  # what this process has sent: "" (nothing), "running", or the end time of the trial


class UnavailableError(Exception):
    """MLflow cannot be used now. The message is a clause with the reason."""


class RefusedError(Exception):
    """MLflow refused a record, and would refuse the record again."""


class ExperimentStore:
    """One experiment of an MLflow store.

    Args:
        uri: MLflow's tracking URI.
        artifact_root: the folder for artifacts. Used only if this class creates the experiment in a database.
    """

    def __init__(self, *, uri: str, experiment: str, artifact_root: Path) -> None:
        self.uri = absolute_uri(uri)
        self._experiment = experiment
        self._artifact_root = artifact_root
        self._client: Any = None
        self._experiment_id = ""

    def connect(self) -> None:
        """Open the store, and find or create the experiment.

        Raises:
            UnavailableError: the URI is not usable, or the experiment was deleted. MLflow's own errors are not caught.
        """
        if self._client is not None:
            return
        if problem := tracking_problem(self.uri):
            raise UnavailableError(problem)
        from mlflow import MlflowClient

        quiet_mlflow()
        if path := sqlite_path(self.uri):
            _create_database(path)
        client = MlflowClient(tracking_uri=self.uri)
        if (experiment := client.get_experiment_by_name(self._experiment)) is None:
            location = self._artifact_root.absolute().as_uri() if is_database(self.uri) else None
            try:
                client.create_experiment(self._experiment, artifact_location=location, tags=_KIND)
            except Exception as error:  # another sweep has just created the experiment
                if getattr(error, "error_code", None) != "RESOURCE_ALREADY_EXISTS":
                    raise
            experiment = client.get_experiment_by_name(self._experiment)
        if experiment.lifecycle_stage != "active":
            raise UnavailableError(
                f"experiment '{self._experiment}' was deleted in MLflow: restore it with `mlflow experiments restore "
                f"--experiment-id {experiment.experiment_id}`, or use another experiment"
            )
        self._client, self._experiment_id = client, experiment.experiment_id

    def answers(self) -> bool:
        try:
            self._client.get_experiment(self._experiment_id)
        except Exception:
            return False
        return True

    def runs(self, sweep_id: str) -> dict[str, StoredRun]:
        """Return all runs of a sweep, including deleted runs, as a mapping from :attr:`NewRun.key` to run."""
        from mlflow.entities import ViewType

        query = f"tags.sweep_id = '{sweep_id}'"
        run_by_key: dict[str, StoredRun] = {}
        page_token: str | None = None
        while True:
            page = self._client.search_runs([self._experiment_id], query, ViewType.ALL, page_token=page_token)
            for run in page:
                tags = run.data.tags
                is_active = run.info.lifecycle_stage == "active"
                key = tags.get("trial_id") or epoch_run_key(tags[RECOMMENDED_TRIAL], tags[RECOMMENDED_EPOCH])
                if is_active or key not in run_by_key:
                    step = max((metric.step for metric in run.data.to_proto().metrics), default=-1)
                    run_by_key[key] = StoredRun(
                        id=run.info.run_id, active=is_active, tags=dict(tags), metrics=dict(run.data.metrics), step=step
                    )
            if not page.token:  # the last page
                return run_by_key
            page_token = page.token

    def address(self, run_id: str) -> str:
        """Return the URL of the run's page, relative to the URL of MLflow's UI."""
        return f"#/experiments/{self._experiment_id}/runs/{run_id}"

    def create_run(self, new: NewRun, tags: Mapping[str, str]) -> StoredRun:
        """Create a run in MLflow with the tags of ``new`` and the additional ``tags``."""
        tags = {**new.tags, **tags}
        run = self._client.create_run(self._experiment_id, start_time=new.start_time, tags=tags, run_name=new.name)
        return StoredRun(run.info.run_id, tags=tags)

    def begin(self, run: StoredRun, new: NewRun) -> None:
        """Set the parameters and tags of a run, and set its status to running.

        MLflow cannot change a parameter. If a resumed sweep changes a parameter, the tag ``resumed.NAME`` has the new
        value.
        """
        from mlflow.entities import Param

        stored_run = self._client.get_run(run.id)
        run.tags = dict(stored_run.data.tags)
        logged = stored_run.data.params
        params = [Param(name, value) for name, value in new.params.items() if name not in logged]
        for start in range(0, len(params), _PER_BATCH):
            self._client.log_batch(run.id, params=params[start : start + _PER_BATCH])
        changed = {f"resumed.{name}": value for name, value in new.params.items() if logged.get(name, value) != value}
        self.set_tags(run, {**new.tags, **changed})
        if "error" in run.tags:
            self._client.delete_tag(run.id, "error")
            del run.tags["error"]
        if stored_run.info.status != "RUNNING":
            self._client.update_run(run.id, status="RUNNING")

    def log_metrics(self, run: StoredRun, points: list[tuple[str, float, int, int]]) -> None:
        """Log up to 1,000 metrics: name, value, milliseconds since 1970, step. MLflow stores all of them or none."""
        from mlflow.entities import Metric

        if points:
            self._client.log_batch(run.id, metrics=[Metric(*point) for point in points])
            run.metrics |= {name: value for name, value, _, _ in points}

    def end(self, run: StoredRun, *, status: str, tags: Mapping[str, str], end_time: int) -> None:
        """Set the tags, the end time and the final status: FINISHED, FAILED or KILLED."""
        self.set_tags(run, tags)
        self._client.set_terminated(run.id, status, end_time=end_time)

    def set_tags(self, run: StoredRun, tags: Mapping[str, str]) -> None:
        """Set the tags of a run. Tags that already have the given values are not sent."""
        from mlflow.entities import RunTag

        changed = {name: value for name, value in tags.items() if run.tags.get(name) != value}
        if changed:
            self._client.log_batch(run.id, tags=[RunTag(name, value) for name, value in changed.items()])
            run.tags |= changed

    def log_artifact(self, run: StoredRun, source: Path, *, artifact_path: str) -> None:
        log_artifact(self._client, run.id, source, artifact_path=artifact_path)


def log_artifact(client: Any, run_id: str, source: Path, *, artifact_path: str) -> None:
    """Log a file or folder as an artifact of a run, below ``artifact_path``. Replace existing artifacts.

    If the artifacts are in a local folder, a logged folder is hard-linked if possible, so a large checkpoint takes no
    additional space. A single file is copied, because a resumed sweep may rewrite the file.

    Raises:
        FileNotFoundError: ``source`` does not exist.
        OSError: writing to the disk failed. MLflow's own errors are not caught.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source} no longer exists")
    artifacts = urlsplit(client.get_run(run_id).info.artifact_uri)
    if artifacts.scheme in ("", "file"):
        target = Path(unquote(artifacts.path)) / artifact_path
        with staged(target if source.is_dir() else target / source.name) as staging:
            if source.is_dir():
                shutil.copytree(source, staging, copy_function=link_or_copy)
            else:
                shutil.copy2(source, staging)
        return
    with _upload_timeout():
        upload = client.log_artifacts if source.is_dir() else client.log_artifact
        upload(run_id, str(source), artifact_path or None)


def prepare_environment() -> None:
    """Set MLflow's environment variables, such as the request timeout, unless the user has set them.

    Must not be called in a background thread, because adding environment variables is not thread-safe.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def quiet_mlflow() -> None:
    """Silence MLflow's logs, which would break the progress display."""
    for name, level in _LOG_LEVELS.items():
        logging.getLogger(name).setLevel(level)


def is_refusal(error: Exception) -> bool:
    """Return whether the failed request would fail again with the same error."""
    return isinstance(error, RefusedError | FileNotFoundError) or getattr(error, "error_code", None) in _REFUSALS


def plain_reason(error: BaseException) -> str:
    """Return a short reason why a request failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return "no answer in time"
        if isinstance(cause, ConnectionError) and not cause.strerror:
            return "connection lost"
        if isinstance(cause, OSError) and cause.strerror:
            path = f": {cause.filename}" if cause.filename else ""
            return cause.strerror[:1].lower() + cause.strerror[1:] + path
        cause = cause.__cause__ or cause.__context__
    lines = str(error).strip().splitlines()
    return without_passwords(lines[0][:300]) if lines else type(error).__name__


@contextmanager
def _upload_timeout() -> Iterator[None]:
    # Only the value of an existing variable changes, because other threads may read the environment.
    if os.environ.get(_TIMEOUT) != _ENVIRONMENT[_TIMEOUT]:  # the user has set another value
        yield
        return
    os.environ[_TIMEOUT] = _UPLOAD_TIMEOUT
    try:
        yield
    finally:
        os.environ[_TIMEOUT] = _ENVIRONMENT[_TIMEOUT]


def _create_database(path: Path) -> None:
    """Create an empty MLflow database atomically, unless the file exists.

    MLflow runs about fifty migrations, which take two seconds. A kill during the migrations leaves a damaged file
    ("duplicate column name"), so the migrations run on a temporary file.
    """
    if path.exists():
        return
    from mlflow import MlflowClient

    with staged(path, keep_existing=True) as staging:  # another sweep may have created the database meanwhile
        MlflowClient(tracking_uri=sqlite_uri(staging)).search_experiments(max_results=1)
