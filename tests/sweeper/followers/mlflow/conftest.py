"""A sweep whose tables a tracker follows, against real MLflow on SQLite."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sweeper.followers.mlflow import Tracker, TrackingSummary
from sweeper.store.tables import ResultTables

_numbers = count()


FIRST_SESSION = """
import os, sys
from pathlib import Path
from sweeper.store.tables import ResultTables
from sweeper.followers.mlflow import Tracker, tracking_problem
assert tracking_problem("sqlite:///mlflow.db") is None
assert "mlflow" not in sys.modules
tracker = Tracker(tables=ResultTables(Path("out")), sweep_id="0", uri="sqlite:///mlflow.db",
                  experiment="e", sweep_name="s", parent_params={}, parent_tags={}, artifact_root=Path("artifacts"))
os.chdir("/")
assert tracker.close(timeout=100).pending == 0
"""


@dataclass(frozen=True)
class FirstSession:
    """The folder it ran in, its process, and what it left there."""

    folder: Path
    done: subprocess.CompletedProcess[str]
    left: list[str]


@pytest.fixture(scope="session")
def first_session(tmp_path_factory: pytest.TempPathFactory) -> FirstSession:
    """A tracker has run once with the default URI."""
    folder = tmp_path_factory.mktemp("first")
    command = [sys.executable, "-c", FIRST_SESSION]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return FirstSession(folder, done, sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))


@pytest.fixture(scope="session")
def database(first_session: FirstSession) -> Path:
    """An MLflow database; setting one up takes seconds, so the tests share it and use an experiment each."""
    return first_session.folder / "mlflow.db"


@dataclass
class Session:
    """As much of a sweep's session as writes to the tables and wakes the tracker."""

    tables: ResultTables
    tracker: Tracker

    def start(self, trial_id: str, **more: object) -> None:
        self.tracker.trial_started(trial_id, ROW | more)

    def report(self, trial_id: str, step: int, **metrics: object) -> None:
        self.tables.add_report(trial_id, {"step": step, **metrics})
        self.tables.write()
        self.tracker.wake()

    def end(self, trial_id: str, status: str = "finished", **outcome: object) -> None:
        self.tables.add_trial({"trial_id": trial_id, **ROW, "status": status, "ended_at": time.time(), **outcome})
        self.tables.write()
        self.tracker.wake()

    def run(self, trial_id: str, *, steps: int = 3) -> None:
        self.start(trial_id)
        for step in range(1, steps + 1):
            self.report(trial_id, step, forget_loss=step / 2)
        self.end(trial_id, forget_loss=steps / 2, utility=0.5)

    def close(self, timeout: float = 30.0) -> TrackingSummary:
        return self.tracker.close(timeout)


@dataclass
class Sweep:
    """One sweep's folder, its sessions, and what MLflow has of it."""

    folder: Path
    uri: str
    experiment: str
    client: Any
    sweep_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def open(self, **given: Any) -> Session:
        self.folder.mkdir(exist_ok=True)
        options = {
            "tables": ResultTables(self.folder),
            "sweep_id": self.sweep_id,
            "uri": self.uri,
            "experiment": self.experiment,
            "sweep_name": "my sweep",
            "parent_params": {"trials": 2},
            "parent_tags": {"method": "gdiff"},
            "artifact_root": self.folder / "artifacts",
        }
        options |= given
        return Session(options["tables"], Tracker(**options))

    def runs(self) -> list[Any]:
        found = self.client.get_experiment_by_name(self.experiment)
        return [] if found is None else list(self.client.search_runs([found.experiment_id]))

    def parents(self) -> list[Any]:
        return [run for run in self.runs() if "mlflow.parentRunId" not in run.data.tags]

    def trial(self, trial_id: str) -> Any:
        (run,) = [run for run in self.runs() if run.data.tags.get("trial_id") == trial_id]
        return run

    def points(self, trial_id: str, metric: str = "forget_loss") -> list[tuple[int, float]]:
        history = self.client.get_metric_history(self.trial(trial_id).info.run_id, metric)
        return sorted((point.step, point.value) for point in history)


@pytest.fixture
def sweep(database: Path, tmp_path: Path) -> Sweep:
    from mlflow import MlflowClient

    uri = f"sqlite:///{database}"
    return Sweep(tmp_path / "out", uri, f"experiment {next(_numbers)}", MlflowClient(tracking_uri=uri))


ROW = {"method": "gdiff", "c": 0.4, "lr": 1e-4, "objective_beta": None, "spec_hash": "cafe", "auto_lr": "off"}
THREE = [(1, 0.5), (2, 1.0), (3, 1.5)]


def make_checkpoint(folder: Path, *, weights: bytes = bytes(range(256)) * 64) -> Path:
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer" / "vocab.json").write_text('{"a": 0}')
    return folder


def noted(name: str, asked: list[str]) -> Callable[..., Any]:
    """A method of MLflow's client that notes the run it is called on."""
    from mlflow import MlflowClient

    method = getattr(MlflowClient, name)

    def call(client: Any, run_id: str, *args: Any, **given: Any) -> Any:
        asked.append(run_id)
        return method(client, run_id, *args, **given)

    return call
