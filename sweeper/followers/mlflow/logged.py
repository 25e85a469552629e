"""MLflow's data sets and models: what a trial was trained on, and its checkpoint with the metrics it has.

Both are extras. A server that does not know them (MLflow before 2.4 and 3.0) has the runs without them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.followers.mlflow.artifacts import link, local_folder

_DIGEST_LENGTH = 36  # characters MLflow keeps
_UNKNOWN_TO_SERVER = {"ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED"}


@dataclass(frozen=True, slots=True)
class LoggedData:
    """A data set by name and digest, never its contents; ``sizes`` counts its sets, ``source`` is where it is from."""

    name: str
    digest: str
    source_type: str
    source: Mapping[str, object]
    sizes: Mapping[str, int] = field(default_factory=dict)


def log_data(client: Any, run_id: str, data: LoggedData) -> None:
    """Say that a run used the data set; saying it twice changes nothing."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    entry = Dataset(
        name=data.name,
        digest=data.digest[:_DIGEST_LENGTH],
        source_type=data.source_type,
        source=json.dumps(dict(data.source)),
        profile=json.dumps(dict(data.sizes)),
    )
    given = [DatasetInput(dataset=entry, tags=[InputTag("mlflow.data.context", "unlearning")])]
    _where_known(lambda: client.log_inputs(run_id, datasets=given))


def log_model(
    client: Any, run_id: str, source: Path, *, names: Collection[str], data: LoggedData | None = None
) -> None:
    """The folder ``source`` as a logged model of the run, with the run's metrics ``names``; twice changes nothing.

    Its files are linked beside the run's own, so that weights are stored once. Where artifacts are not in a local
    folder they would be sent twice; there the run has the checkpoint among its artifacts and no logged model.
    """
    _where_known(lambda: _log_model(client, run_id, source, names=names, data=data))


def _log_model(client: Any, run_id: str, source: Path, *, names: Collection[str], data: LoggedData | None) -> None:
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric

    run = client.get_run(run_id)
    if local_folder(run.info.artifact_uri) is None:
        return
    experiment = run.info.experiment_id
    begun = client.search_logged_models([experiment], filter_string=f"source_run_id = '{run_id}'")
    identity = ("trial_id", "recommended_trial", "recommended_epoch", "sweep_id", "spec_hash")
    tags = {name: run.data.tags[name] for name in identity if name in run.data.tags}
    model = (
        begun[0]
        if begun
        else client.create_logged_model(
            experiment, name=_model_name(run.info.run_name), source_run_id=run_id, tags=tags, params=run.data.params
        )
    )
    folder = local_folder(model.artifact_location)
    assert folder is not None, "it lies beside the run's artifacts"
    shutil.copytree(source, folder, copy_function=link, dirs_exist_ok=True)
    named = {"dataset_name": data.name, "dataset_digest": data.digest[:_DIGEST_LENGTH]} if data else {}
    # The run's own points: with another time MLflow would take them for new ones of the run, too.
    points = [
        Metric(point.key, point.value, point.timestamp, point.step, model_id=model.model_id, run_id=run_id, **named)
        for point in run.to_proto().data.metrics
        if point.key in names
    ]
    client.log_batch(run_id, metrics=points)
    if model.model_id not in [output.model_id for output in (run.outputs.model_outputs if run.outputs else ())]:
        client.log_outputs(
            run_id, [LoggedModelOutput(model.model_id, max((point.step for point in points), default=0))]
        )
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def _model_name(run_name: str) -> str:
    """MLflow takes no ``/ : . % " '`` in it."""
    return "".join("_" if letter in "/:.%\"'" else letter for letter in run_name)


def _where_known(request: Callable[[], None]) -> None:
    try:
        request()
    except Exception as error:
        if getattr(error, "error_code", None) not in _UNKNOWN_TO_SERVER and not isinstance(error, AttributeError):
            raise
