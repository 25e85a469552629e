"""Data sets, files and models of a run.

Files are hard-linked, not copied, if the run's artifacts are in a local folder. Data sets and logged models are
optional: a server that does not support them (MLflow before 2.4 and 3.0) gets the runs without them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from search_spaces.durable import link_or_copy, staged
from sweeper.followers.mlflow.runs import LoggedData

_DIGEST_LENGTH = 36  # the characters of a digest that MLflow keeps
_UNSUPPORTED = {"ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED"}
_COPIED_TAGS = ("trial_id", "recommended_trial", "recommended_epoch", "sweep_id", "spec_hash")


def keep_artifact(client: Any, run_id: str, source: Path, *, under: str) -> None:
    """Log a file or folder to a run, in the folder ``under`` of its artifacts ("" for the top).

    If artifacts are in a local folder, the files of a folder are hard-linked there, so that a checkpoint of gigabytes
    costs neither time nor space. Between file systems they are copied. A single file is always copied: tables and
    figures are rewritten by the next resume, and the artifact must not change with them.

    Raises FileNotFoundError if ``source`` does not exist, OSError if the disk refuses, and what MLflow raises.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source} no longer exists")
    folder = _local_folder(client.get_run(run_id).info.artifact_uri)
    if folder is not None:
        if source.is_dir():
            shutil.copytree(source, folder / under, copy_function=link, dirs_exist_ok=True)
        else:
            with staged(folder / under / source.name) as staging:
                shutil.copy2(source, staging)
    elif source.is_dir():
        client.log_artifacts(run_id, str(source), under or None)
    else:
        client.log_artifact(run_id, str(source), under or None)


def log_data(client: Any, run_id: str, data: LoggedData) -> None:
    """Log the data set that a run used. A second call changes nothing."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    entry = Dataset(
        name=data.name,
        digest=data.digest[:_DIGEST_LENGTH],
        source_type=data.source_type,
        source=json.dumps(dict(data.source)),
        profile=json.dumps(dict(data.sizes)),
    )
    used = [DatasetInput(dataset=entry, tags=[InputTag("mlflow.data.context", "unlearning")])]
    _if_supported(lambda: client.log_inputs(run_id, datasets=used))


def log_model(client: Any, run_id: str, source: Path, *, names: Collection[str], data: LoggedData | None) -> None:
    """Log the folder ``source`` as a model of the run, with the run's metrics ``names``. A second call changes nothing.

    The model's files are hard links, so the weights are stored once. If artifacts are not in a local folder, the
    weights would be uploaded twice, so the run then has the checkpoint among its artifacts and no logged model.
    """
    _if_supported(lambda: _log_model(client, run_id, source, names=names, data=data))


def _log_model(client: Any, run_id: str, source: Path, *, names: Collection[str], data: LoggedData | None) -> None:
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric

    run = client.get_run(run_id)
    if _local_folder(run.info.artifact_uri) is None:
        return
    experiment = run.info.experiment_id
    found = client.search_logged_models([experiment], filter_string=f"source_run_id = '{run_id}'")
    model = (
        found[0]
        if found
        else client.create_logged_model(
            experiment,
            name="".join("_" if letter in "/:.%\"'" else letter for letter in run.info.run_name),
            source_run_id=run_id,
            tags={name: run.data.tags[name] for name in _COPIED_TAGS if name in run.data.tags},
            params=run.data.params,
        )
    )
    folder = _local_folder(model.artifact_location)
    assert folder is not None, "the model's folder is beside the run's artifacts"
    shutil.copytree(source, folder, copy_function=link, dirs_exist_ok=True)
    links: dict[str, str] = {"model_id": model.model_id, "run_id": run_id}
    if data is not None:
        links |= {"dataset_name": data.name, "dataset_digest": data.digest[:_DIGEST_LENGTH]}
    # The time of each point is that of the run's own point: MLflow would add a point with another time to the run.
    points = [
        Metric(point.key, point.value, point.timestamp, point.step, **links)
        for point in run.to_proto().data.metrics
        if point.key in names
    ]
    client.log_batch(run_id, metrics=points)
    if model.model_id not in [output.model_id for output in (run.outputs.model_outputs if run.outputs else ())]:
        step = max((point.step for point in points), default=0)
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step)])
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def link(source: str, target: str) -> None:
    """Hard-link the file ``source`` to ``target``, or copy it if the file system has no links."""
    path = Path(target)
    if not (path.exists() and path.samefile(source)):
        with staged(path) as staging:
            link_or_copy(source, staging)


def _local_folder(artifact_uri: str) -> Path | None:
    """Return the folder of a ``file:`` URI or plain path, or None if the artifacts are not on this machine."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(artifact_uri) if parts.scheme == "" else None


def _if_supported(request: Callable[[], None]) -> None:
    try:
        request()
    except Exception as error:
        if getattr(error, "error_code", None) not in _UNSUPPORTED and not isinstance(error, AttributeError):
            raise
