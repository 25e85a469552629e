"""A sweep's records in MLflow, read with MLflow's own client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.product import Row, Sweep

PARENT = "mlflow.parentRunId"


@dataclass(frozen=True)
class Records:
    """The runs of one experiment: the sweep's, those of its trials by trial id, and all of them."""

    client: Any
    parent: Any
    trials: dict[str, Any]
    runs: list[Any]

    @property
    def recommended(self) -> list[Any]:
        return [run for run in self.runs if run.data.tags.get("recommended") == "true"]

    def points(self, run: Any, metric: str) -> list[tuple[int, float]]:
        """What MLflow has of a metric, step by step."""
        return sorted((p.step, p.value) for p in self.client.get_metric_history(run.info.run_id, metric))

    def download(self, run: Any, artifact: str, folder: Path) -> Path:
        return Path(self.client.download_artifacts(run.info.run_id, artifact, str(folder)))


def records(uri: str, experiment: str) -> Records:
    """Everything that MLflow has of a sweep; a trial with two runs is an error."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    assert found is not None, experiment
    runs = list(client.search_runs([found.experiment_id]))
    (parent,) = [run for run in runs if PARENT not in run.data.tags]
    children = [run for run in runs if run.data.tags.get(PARENT) == parent.info.run_id]
    trials = {run.data.tags["trial_id"]: run for run in children}
    assert len(trials) == len(children), "a trial has more than one run"
    return Records(client, parent, trials, runs)


def assert_complete(found: Records, sweep: Sweep, metrics: tuple[str, ...]) -> None:
    """MLflow has one run for each trial, and each value of the tables exactly once."""
    assert sorted(found.trials) == sorted(sweep.ids())
    for row in sweep.trials:
        run = found.trials[row["trial_id"]]
        assert run.info.status == ("FINISHED" if row["status"] in {"finished", "stopped"} else "FAILED")
        for name in metrics:
            assert found.points(run, name) == reported(sweep, row, name), f"{name} of trial {row['trial_id']}"
            assert run.data.metrics.get(name) == (float(row[name]) if row[name] else None), name


def reported(sweep: Sweep, row: Row, metric: str) -> list[tuple[int, float]]:
    """The values of a metric in history.csv."""
    reports = [report for report in sweep.history if report["trial_id"] == row["trial_id"] and report[metric]]
    return [(int(report["step"]), float(report[metric])) for report in reports]
