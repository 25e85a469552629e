"""Make requests to MLflow. Requests block the calling thread, so a sweep makes them only in the tracker's thread.

Importing MLflow takes seconds, so functions of this module import MLflow only when needed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from search_spaces.common.durable import staged
from sweeper.followers.mlflow.artifacts import log_artifact, remove_artifacts
from sweeper.followers.mlflow.models import NewModel, Point
from sweeper.followers.mlflow.runs import NewRun
from sweeper.followers.mlflow.stored import REGISTERED, StoredModel, StoredRun
from sweeper.settings.tracking_uri import (
    absolute_uri,
    is_database,
    sqlite_path,
    sqlite_uri,
    tracking_problem,
    without_passwords,
)

_PER_BATCH = 100  # params in one request
_POINTS_PER_REQUEST = 1000  # metrics in one request
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""The tag with which MLflow's UI shows training runs instead of LLM traces."""

SAVED_VIEW = "mlflow.sharedViewState."
"""The beginning of the tag of an experiment with the state of a page of MLflow's UI. The key of the page follows."""
_LOG_LEVELS = {"mlflow": logging.ERROR, "mlflow.store": logging.CRITICAL, "alembic": logging.WARNING}

_REFUSALS = {
    *("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE"),
    "ENDPOINT_NOT_FOUND",  # a server of MLflow 2 has no logged models
}
"""MLflow's error codes for requests that would fail again."""


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

    @classmethod
    def at(cls, uri: str, experiment: str = "unlearning") -> ExperimentStore:
        """Return an experiment. With a SQLite database, its artifacts are in the folder ``mlartifacts`` beside it."""
        database = sqlite_path(uri)
        folder = Path.cwd() if database is None else database.parent
        return cls(uri=uri, experiment=experiment, artifact_root=folder / "mlartifacts")

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

    def save_view(self, key: str, state: Mapping[str, object]) -> None:
        """Save the state of a page that lists runs. MLflow's UI shows this page at ``runs?viewStateShareKey=KEY``."""
        self._client.set_experiment_tag(self._experiment_id, f"{SAVED_VIEW}{key}", json.dumps(state))

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
        for run in _pages(self._client.search_runs, [self._experiment_id], query, ViewType.ALL):
            is_active = run.info.lifecycle_stage == "active"
            key = run.data.tags.get("trial_id")  # missing in a run without a trial
            if key and (is_active or key not in run_by_key):
                run_by_key[key] = StoredRun.of(run)
        return run_by_key

    def models(self, sweep_id: str) -> dict[str, StoredModel]:
        """Return the logged models of a sweep as a mapping from :attr:`NewModel.key` to model."""
        query = f"tags.sweep_id = '{sweep_id}'"
        models = _pages(self._client.search_logged_models, [self._experiment_id], query)
        return {model.name: StoredModel.of(model) for model in models}

    def address(self, owner: StoredRun | StoredModel) -> str:
        """Return the URL of the page of a run or model, relative to the URL of MLflow's UI."""
        kind = "models" if isinstance(owner, StoredModel) else "runs"
        return f"#/experiments/{self._experiment_id}/{kind}/{owner.id}"

    def create_run(self, new: NewRun, tags: Mapping[str, str]) -> StoredRun:
        """Create a run in MLflow with the tags of ``new`` and the additional ``tags``."""
        tags = {**new.tags, **tags}
        run = self._client.create_run(self._experiment_id, start_time=new.start_time, tags=tags, run_name=new.name)
        return StoredRun(run.info.run_id, run.info.artifact_uri, tags=tags)

    def begin(self, run: StoredRun, new: NewRun) -> None:
        """Set the parameters and tags of a run, and set its status to running.

        MLflow cannot change a parameter. If a resumed sweep changes a parameter, the tag ``resumed.NAME`` has the new
        value.
        """
        from mlflow.entities import Param

        new_params = {name: value for name, value in new.params.items() if name not in run.params}
        params = [Param(name, value) for name, value in new_params.items()]
        for start in range(0, len(params), _PER_BATCH):
            self._client.log_batch(run.id, params=params[start : start + _PER_BATCH])
        run.params |= new_params
        changed = {name: value for name, value in new.params.items() if run.params[name] != value}
        self.set_tags(run, {**new.tags, **{f"resumed.{name}": value for name, value in changed.items()}})
        if "error" in run.tags:
            self._client.delete_tag(run.id, "error")
            del run.tags["error"]
        if run.status != "RUNNING":
            self._client.update_run(run.id, status="RUNNING")
            run.status = "RUNNING"

    def log_metrics(self, run: StoredRun, points: list[tuple[str, float, int, int]]) -> None:
        """Log up to 1,000 metrics: name, value, milliseconds since 1970, step. MLflow stores all of them or none."""
        from mlflow.entities import Metric

        if points:
            self._client.log_batch(run.id, metrics=[Metric(*point) for point in points])
            run.metrics |= {name: value for name, value, _, _ in points}

    def metric_times(self, run: StoredRun, names: Iterable[str]) -> dict[tuple[str, int], int]:
        """Return the times of a run's metrics in milliseconds since 1970, by name and step."""
        points = [point for name in names for point in self._client.get_metric_history(run.id, name)]
        return {(point.key, point.step): point.timestamp for point in points}

    def end(self, run: StoredRun, *, status: str, tags: Mapping[str, str], end_time: int) -> None:
        """Set the tags, the end time and the final status: FINISHED, FAILED or KILLED."""
        self.set_tags(run, tags)
        self._client.set_terminated(run.id, status, end_time=end_time)
        run.status = status

    def set_tags(self, run: StoredRun, tags: Mapping[str, str]) -> None:
        """Set the tags of a run. Tags that already have the given values are not sent."""
        from mlflow.entities import RunTag

        changed = {name: value for name, value in tags.items() if run.tags.get(name) != value}
        if changed:
            self._client.log_batch(run.id, tags=[RunTag(name, value) for name, value in changed.items()])
            run.tags |= changed

    def log_artifact(self, run: StoredRun, source: Path, *, artifact_path: str) -> None:
        log_artifact(self._client, run, source, artifact_path=artifact_path)

    def log_table(self, run: StoredRun, name: str, table: object) -> None:
        """Log columns and rows as an artifact that MLflow's UI shows and compares. Replace the existing table.

        ``MlflowClient.log_table`` would append the rows to the existing table.
        """
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(json.dumps(table), encoding="utf-8")
            self.log_artifact(run, path, artifact_path="")
        self.set_tags(run, {"mlflow.loggedArtifacts": json.dumps([{"path": name, "type": "table"}])})

    # Logged models ----------------------------------------------------------------------------------------------------

    def create_model(self, run: StoredRun, new: NewModel) -> StoredModel:
        """Create a logged model without metrics and files. ``run`` is the run of the trial that trained the model."""
        model = self._client.create_logged_model(
            self._experiment_id,
            name=new.key,
            source_run_id=run.id,
            tags=dict(new.tags),
            params=dict(new.params),
            model_type=new.params.get("model"),
        )
        return StoredModel.of(model)

    def add_outputs(self, run: StoredRun, steps: Mapping[str, int]) -> None:
        """List models as outputs of a run. ``steps`` maps the ids of the models to their steps."""
        from mlflow.entities import LoggedModelOutput

        if steps:
            self._client.log_outputs(run.id, [LoggedModelOutput(id, step) for id, step in steps.items()])
            run.models |= steps.keys()

    def log_model_metrics(
        self, run: StoredRun, points: Sequence[tuple[StoredModel, Point]], data_set: tuple[str, str]
    ) -> None:
        """Log metrics of models, which were measured on the data set with this name and digest."""
        from mlflow.entities import Metric

        for start in range(0, len(points), _POINTS_PER_REQUEST):
            batch = points[start : start + _POINTS_PER_REQUEST]
            metrics = [
                Metric(point.name, point.value, point.time_ms, point.step, model.id, *data_set)
                for model, point in batch
            ]
            self._client.log_batch(run.id, metrics=metrics)
            for model, point in batch:
                model.metrics[point.name] = point.value

    def log_model_files(self, model: StoredModel, source: Path) -> None:
        """Log the files in the folder ``source``, and set the status of the model to ready."""
        log_artifact(self._client, model, source)
        self._client.finalize_logged_model(model.id, "READY")
        model.ready = True

    def set_model_tags(self, model: StoredModel, tags: Mapping[str, str]) -> None:
        """Set the tags of a model. Tags that already have the given values are not sent."""
        changed = {name: value for name, value in tags.items() if model.tags.get(name) != value}
        if changed:
            self._client.set_logged_model_tags(model.id, changed)
            model.tags |= changed

    def remove_model(self, model: StoredModel) -> bool:
        """Remove a model and its local files, unless the model was registered. Return whether the model was removed."""
        if REGISTERED in self._client.get_logged_model(model.id).tags:
            return False
        self._client.delete_logged_model(model.id)
        remove_artifacts(model)
        return True


def _pages(search: Any, *args: Any) -> Iterator[Any]:
    """Yield the results on all pages of one of MLflow's searches."""
    page = search(*args)
    yield from page
    while page.token:
        page = search(*args, page_token=page.token)
        yield from page


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
