"""A tracking server, and a sweep's records in MLflow, read with MLflow's own client."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.contract.product import Product, Row, Sweep, wait_until

PARENT = "mlflow.parentRunId"


@dataclass(frozen=True)
class Records:
    """The runs of one experiment: the sweep's, and those of its trials by trial id. Its models by trial and epoch."""

    client: Any
    parent: Any
    trials: dict[str, Any]
    models: dict[tuple[str, float], Any]

    @property
    def runs(self) -> list[Any]:
        return [self.parent, *self.trials.values()]

    @property
    def recommended(self) -> list[Any]:
        return [model for model in self.models.values() if model.tags.get("recommended") == "true"]

    def points(self, run: Any, metric: str) -> list[tuple[int, float]]:
        """What MLflow has of a metric, step by step."""
        return sorted((p.step, p.value) for p in self.client.get_metric_history(run.info.run_id, metric))

    def download(self, model: Any, folder: Path) -> Path:
        """Download the files of a model as a user would, with the address of its own store."""
        import mlflow

        with mock.patch.dict(os.environ, MLFLOW_TRACKING_URI=self.client.tracking_uri):
            return Path(mlflow.artifacts.download_artifacts(f"models:/{model.model_id}", dst_path=str(folder)))


def records(uri: str, experiment: str) -> Records:
    """Everything that MLflow has of a sweep; a trial with two runs is an error, and so is an epoch with two models."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    assert found is not None, experiment
    runs = list(client.search_runs([found.experiment_id]))
    (parent,) = [run for run in runs if PARENT not in run.data.tags]
    children = [run for run in runs if run.data.tags.get(PARENT) == parent.info.run_id]
    trials = {run.data.tags["trial_id"]: run for run in children}
    assert len(trials) == len(children), "a trial has more than one run"
    assert len(runs) == len(trials) + 1
    models = list(client.search_logged_models([found.experiment_id], "tags.phase = 'search'"))
    by_epoch = {(model.tags["trial_id"], float(model.tags["epoch"])): model for model in models}
    assert len(by_epoch) == len(models), "an epoch has more than one model"
    return Records(client, parent, trials, by_epoch)


def assert_complete(found: Records, sweep: Sweep, metrics: tuple[str, ...]) -> None:
    """MLflow has one run for each trial, one model for each kept checkpoint, and each value of the tables once."""
    assert sorted(found.trials) == sorted(sweep.ids())
    for row in sweep.trials:
        run = found.trials[row["trial_id"]]
        assert run.info.status == ("FINISHED" if row["status"] in {"finished", "stopped"} else "FAILED")
        for name in metrics:
            assert found.points(run, name) == reported(sweep, row, name), f"{name} of trial {row['trial_id']}"
            assert run.data.metrics.get(name) == (float(row[name]) if row[name] else None), name
    assert found.models.keys() == kept(sweep).keys()
    for key, candidate in kept(sweep).items():
        model = found.models[key]
        values = {metric.key: metric.value for metric in model.metrics}
        assert (str(model.status), len(values)) == ("READY", len(model.metrics)), key
        assert {name: values[name] for name in metrics if name in values} == {
            name: float(candidate[name]) for name in metrics if candidate[name]
        }, key


def kept(sweep: Sweep) -> dict[tuple[str, float], Row]:
    """The rows of candidates.csv with a checkpoint, by trial and epoch."""
    return {(row["trial_id"], float(row["epoch"])): row for row in sweep.candidates if row["checkpoint"]}


def reported(sweep: Sweep, row: Row, metric: str) -> list[tuple[int, float]]:
    """The values of a metric in history.csv, and those of kept checkpoints in candidates.csv."""
    rows = [report for report in (*sweep.history, *kept(sweep).values()) if report["trial_id"] == row["trial_id"]]
    return sorted({(int(report["step"]), float(report[metric])) for report in rows if report[metric]})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@contextmanager
def mlflow_server(product: Product, port: int) -> Iterator[str]:
    """A tracking server on the loopback address."""
    folder = product.folder / "server"
    folder.mkdir()
    store = ("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts")
    command = [sys.executable, "-m", "mlflow", "server", *store, "--host", "127.0.0.1", "--port", str(port)]
    environment = {**product.environment, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, "--workers", "1"], cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{url}/health"), process)
        yield url
    finally:
        process.terminate()
        process.wait()
