"""A single run of ``unlearn`` in MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sweeper.followers.mlflow.single_run import record_run
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import epoch_report, outcome
from tests.sweeper.followers.mlflow.conftest import digests, folder_of, make_checkpoint
from trainables.spec import TrialSpec


@pytest.fixture
def row(tmp_path: Path) -> dict[str, Any]:
    """The row of a run of two epochs, whose files are in ``run``."""
    make_checkpoint(tmp_path / "run" / "checkpoint")
    reports = [epoch_report(step, forget_loss=step / 2, reported_at=1.7e9 + step) for step in (1, 2)]
    tables = ResultTables(tmp_path / "run")
    tables.history.append({"trial_id": "cafe", **report.row()} for report in reports)
    values = {"steps": 2, "epochs_done": 2.0, "forget_loss": 1.0, "utility": 0.5, "checkpoint": "checkpoint"}
    end = outcome("finished", started_at=1.7e9, ended_at=1.7e9 + 5, **values)
    return {"trial_id": "cafe", "spec_hash": "cafe", **TrialSpec(target_key="abcdef0123").row(), **end.row()}


def test_a_run_is_in_mlflow_with_its_reports_its_files_and_its_model(database: Path, tmp_path: Path, row: Any) -> None:
    from mlflow import MlflowClient

    uri, out = f"sqlite:///{database}", tmp_path / "run"
    assert record_run(row, out, uri=uri) == f"recorded in MLflow at {uri}"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("unlearning")
    (run,) = client.search_runs([experiment.experiment_id], f"tags.out = '{out.resolve()}'")
    assert (run.info.status, run.data.params["method"], run.data.metrics["utility"]) == ("FINISHED", row["method"], 0.5)
    points = client.get_metric_history(run.info.run_id, "forget_loss")
    assert sorted((point.step, point.value) for point in points) == [(1, 0.5), (2, 1.0)]
    (output,) = run.outputs.model_outputs
    model = client.get_logged_model(output.model_id)
    assert (output.step, str(model.status), model.params) == (2, "READY", run.data.params)
    assert {metric.key: metric.value for metric in model.metrics} == {"epoch": 2.0, "forget_loss": 1.0, "utility": 0.5}
    assert {metric.dataset_digest for metric in model.metrics} == {"abcdef01"}
    assert digests(folder_of(model)) == digests(out / "checkpoint")


def test_a_server_that_cannot_be_used_is_named_and_the_run_keeps_its_result(
    dead_uri: str, tmp_path: Path, row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith("MLFLOW_"):
            monkeypatch.delenv(name)
    assert f"MLflow at {dead_uri} could not record the whole run" in record_run(row, tmp_path / "run", uri=dead_uri)
