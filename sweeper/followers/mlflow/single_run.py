"""Record a single run of ``unlearn`` in MLflow, after the run has ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeper.followers.mlflow.artifacts import prepare_environment
from sweeper.followers.mlflow.models import NewModel, Point, model_key
from sweeper.followers.mlflow.runs import (
    MLFLOW_STATUS,
    NewRun,
    finite_metrics,
    fit_params,
    fit_tags,
    milliseconds,
)
from sweeper.followers.mlflow.store import ExperimentStore, plain_reason
from sweeper.settings.tracking_uri import redact_uri
from sweeper.store.columns import HISTORY_METRICS, METRIC_COLUMNS, OUTCOME_METRICS, PARAMETERS
from sweeper.store.progress import settings_text
from sweeper.store.tables import ResultTables

_PER_REQUEST = max(1, 1000 // len(HISTORY_METRICS))  # reports in a request; MLflow accepts up to 1,000 metrics


def record_run(row: Mapping[str, Any], out: Path, *, uri: str) -> str:
    """Record the run in ``out`` with its metrics and files, and its model as a logged model. Return a message.

    ``row`` is the row of the run in the format of trials.csv. If MLflow cannot record the run, the message says why.
    """
    prepare_environment()
    try:
        _record(row, out, ExperimentStore.at(uri))
    except Exception as error:  # the result is in the folder of the run
        return f"MLflow at {redact_uri(uri)} could not record the whole run ({plain_reason(error)})"
    return f"recorded in MLflow at {redact_uri(uri)}"


def _record(row: Mapping[str, Any], out: Path, store: ExperimentStore) -> None:
    store.connect()
    end_ms = milliseconds(row["ended_at"])
    tags = fit_tags(
        {"out": out.resolve(), "status": row["status"], "spec_hash": row["spec_hash"], "error": row["error"]}
    )
    new = NewRun(
        key=str(row["spec_hash"]),
        parent=None,
        name=f"unlearn {settings_text(row)}",
        params=fit_params({name: row.get(name) for name in PARAMETERS}),
        tags=tags,
        start_time=milliseconds(row["started_at"]),
    )
    run = store.create_run(new, {})
    store.begin(run, new)
    reports = ResultTables(out).history.read()
    for start in range(0, len(reports), _PER_REQUEST):
        points = []
        for report in reports[start : start + _PER_REQUEST]:
            time_ms, step = milliseconds(report["reported_at"]), int(report["step"])
            metrics = finite_metrics(report, HISTORY_METRICS)
            points += [(name, value, time_ms, step) for name, value in metrics.items()]
        store.log_metrics(run, points)
    last_step = int(row["steps"] or 0)
    final_metrics = finite_metrics(row, OUTCOME_METRICS)
    changed = {name: value for name, value in final_metrics.items() if run.metrics.get(name) != value}
    store.log_metrics(run, [(name, value, end_ms, last_step) for name, value in changed.items()])
    for name in ("metrics.json", "history.csv", "auto_lr.csv", "landscape.csv", "items.json"):
        if (out / name).is_file():
            store.log_artifact(run, out / name, artifact_path="")
    if row["checkpoint"]:
        epoch = float(row["epochs_done"])
        metrics = {"epoch": epoch, **finite_metrics(row, METRIC_COLUMNS)}
        last_ms = milliseconds(reports[-1]["reported_at"]) if reports else end_ms
        new_model = NewModel(
            key=model_key(str(row["spec_hash"]), epoch),
            trial_id=str(row["spec_hash"]),
            epoch=epoch,
            folder=str(row["checkpoint"]),
            is_last=True,
            params=new.params,
            tags=fit_tags({"epoch": f"{epoch:g}", "checkpoint": row["checkpoint"], "spec_hash": row["spec_hash"]}),
            points=[
                Point(name, value, end_ms if name in changed else last_ms, last_step) for name, value in metrics.items()
            ],
        )
        model = store.create_model(run, new_model)
        store.add_outputs(run, {model.id: new_model.step})
        data_set = (str(row["dataset"]), str(row["target_key"])[:8])
        store.log_model_metrics(run, [(model, point) for point in new_model.points], data_set)
        store.log_model_files(model, out / new_model.folder)
    store.end(run, status=MLFLOW_STATUS.get(str(row["status"]), "FAILED"), tags=tags, end_time=end_ms)
