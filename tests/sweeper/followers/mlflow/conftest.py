"""A sweep whose event log a tracker follows, against real MLflow on SQLite."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from sweeper.followers.mlflow.runs import Recommendation, SweepEnd, TrackedSweep
from sweeper.followers.mlflow.store import ExperimentStore
from sweeper.followers.mlflow.tracker import Tracker
from sweeper.store.event_log import EventLog
from sweeper.store.events import (
    MetricsMeasured,
    TrialEnded,
    TrialProposed,
    TrialReported,
    TrialRequeued,
    TrialStarted,
)
from tests.sweeper.conftest import epoch_report, outcome

_numbers = count()
ROW = {"method": "gdiff", "c": 0.4, "lr": 1e-4, "objective_beta": None, "spec_hash": "cafe", "auto_lr": "off"}
THREE = [(1, 0.5), (2, 1.0), (3, 1.5)]

FIRST_SESSION = """
import os, sys
from pathlib import Path
from tests.sweeper.followers.mlflow.conftest import open_session
assert "mlflow" not in sys.modules
session = open_session(Path("out"), "sqlite:///mlflow.db", "e")
os.chdir("/")
assert session.close(timeout=300).pending == 0
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
FirstSession = tuple[Path, subprocess.CompletedProcess[str], list[str]]
"""The folder in which a process opened the default URI for the first time, the process, and the files that it left."""


@pytest.fixture(scope="session")
def first_session(tmp_path_factory: pytest.TempPathFactory) -> FirstSession:
    folder = tmp_path_factory.mktemp("first")
    (folder / "out").mkdir()
    command = [sys.executable, "-c", FIRST_SESSION]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return folder, done, sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture(scope="session")
def database(first_session: FirstSession) -> Path:
    """An MLflow database; creating one takes seconds, so the tests share it and use an experiment each."""
    return first_session[0] / "mlflow.db"


@dataclass
class KeptCheckpoints:
    """The epochs whose checkpoints are kept. Each kept checkpoint exists unless it is in ``unsaved``."""

    kept_epochs: dict[str, frozenset[float]] = field(default_factory=dict)
    unsaved: frozenset[str] = frozenset()

    def keep(self, candidates: Collection[tuple[str, float]]) -> None:
        """Keep the checkpoints of these trials and epochs, and those of last epochs, but no others."""
        trial_ids = {trial_id for trial_id, _ in candidates}
        self.kept_epochs = {
            trial_id: frozenset(epoch for other, epoch in candidates if other == trial_id) for trial_id in trial_ids
        }

    def was_deleted(self, folder: str) -> bool:
        return False

    def has_model(self, folder: str) -> bool:
        return folder not in self.unsaved


@dataclass
class Session:
    """A log that the test records in, and its tracker. ``message`` is the tracker's last sentence to the user."""

    log: EventLog
    tracker: Tracker
    checkpoints: KeptCheckpoints
    message: str = ""

    @property
    def pending(self) -> int:
        """The number of records that MLflow lacks."""
        return self.tracker._delivery.pending()

    @property
    def run_id(self) -> str | None:
        return self.tracker._delivery.sweep_run_id

    def start(self, trial_id: str, **settings: object) -> None:
        if trial_id not in self.log.state.trials:
            self.log.record(TrialProposed(trial_id, ROW | settings))
        self.log.record(TrialStarted(trial_id))

    def report(self, trial_id: str, step: int, **metrics: object) -> None:
        self.log.record(TrialReported(trial_id, epoch_report(step, **metrics)))

    def end(self, trial_id: str, status: str = "finished", **values: object) -> None:
        self.log.record(TrialEnded(trial_id, outcome(status, **values)))

    def run(self, trial_id: str, *, steps: int = 3, checkpoint: str | None = None) -> None:
        self.start(trial_id)
        for step in range(1, steps + 1):
            self.report(trial_id, step, forget_loss=step / 2)
        self.end(trial_id, forget_loss=steps / 2, utility=0.5, checkpoint=checkpoint)

    def requeue(self, trial_id: str, step: int = -1) -> None:
        self.log.record(TrialRequeued(trial_id, step))

    def measure(self, metrics: Mapping[str, float]) -> None:
        """Measure metrics of the checkpoint of EARLY."""
        self.log.record(MetricsMeasured("00001", 10, metrics))

    def finish(self, status: str = "finished", **end: Any) -> Session:
        self.tracker.sweep_ended(SweepEnd(status=status, **end))
        return self.close()

    def close(self, timeout: float = 30.0) -> Session:
        self.message = self.tracker.close(timeout)
        return self


def open_session(
    out: Path,
    uri: str,
    experiment: str,
    is_awaited: Callable[[str], bool] = lambda trial_id: False,
    kept: Collection[tuple[str, float]] = (),
    **sweep: Any,
) -> Session:
    """Open the log in a folder with a tracker; ``sweep`` has fields of the sweep."""
    log = EventLog(out / "events.jsonl")
    fields: dict[str, Any] = {"id": "0", "name": "my sweep", "out": out.absolute(), "params": {"trials": 2}}
    fields["data_set"] = ("tofu/forget01", "abc")
    store = ExperimentStore(uri=uri, experiment=experiment, artifact_root=out / "artifacts")
    checkpoints = KeptCheckpoints()
    checkpoints.keep(kept)
    tracker = Tracker(log, TrackedSweep(**(fields | sweep)), store, checkpoints, is_awaited)
    log.attach(tracker)
    return Session(log, tracker, checkpoints)


@dataclass
class Sweep:
    """A sweep's folder, its sessions, and its runs in MLflow."""

    folder: Path
    uri: str
    experiment: str
    client: Any
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def open(self, *, uri: str | None = None, **options: Any) -> Session:
        self.folder.mkdir(exist_ok=True)
        return open_session(self.folder, uri or self.uri, self.experiment, **{"id": self.id, **options})

    def runs(self) -> list[Any]:
        found = self.client.get_experiment_by_name(self.experiment)
        return [] if found is None else list(self.client.search_runs([found.experiment_id]))

    def models(self) -> dict[str, Any]:
        """Return the logged models by name. A name that occurs twice is an error."""
        found = self.client.get_experiment_by_name(self.experiment)
        models = [] if found is None else list(self.client.search_logged_models([found.experiment_id]))
        assert len({model.name for model in models}) == len(models)
        return {model.name: model for model in models}

    @property
    def recommended(self) -> list[Any]:
        return [model for model in self.models().values() if model.tags.get("recommended") == "true"]

    @property
    def parent(self) -> Any:
        (run,) = [run for run in self.runs() if "mlflow.parentRunId" not in run.data.tags]
        return run

    def train(self) -> None:
        """Record two trials of three epochs in MLflow. Each epoch has a checkpoint with different weights."""
        session = self.open(kept=KEPT)
        for trial_id in ("00000", "00001"):
            session.start(trial_id)
            for epoch in (1, 2, 3):
                folder = f"checkpoints/{trial_id}" + (f"-epoch-{epoch}" if epoch < 3 else "")
                make_checkpoint(self.folder / folder, weights=f"{trial_id} {epoch}".encode() * 99)
                session.report(trial_id, 5 * epoch, epoch=float(epoch), forget_loss=epoch / 2, retain_loss=epoch / 4)
            values = {"forget_loss": 1.5, "retain_loss": 0.75, "utility": 0.9}
            session.end(trial_id, steps=15, epochs_done=3.0, checkpoint=f"checkpoints/{trial_id}", **values)
        session.measure({"verbmem": 0.25, "utility": 0.5})
        session.close()

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


END = Recommendation(("00001", 3.0), "Take the end of trial 00001.")
EARLY = Recommendation(("00001", 2.0), "Take epoch 2 of trial 00001.")
KEPT = [(trial_id, epoch) for trial_id in ("00000", "00001") for epoch in (1.0, 2.0)]
"""The epochs before the last whose checkpoints are kept in the sweep ``trained``."""


@pytest.fixture
def trained(sweep: Sweep) -> Sweep:
    """A sweep in MLflow with two trials of three epochs. Each epoch has a checkpoint with different weights."""
    sweep.train()
    return sweep


def finish(sweep: Sweep, answer: Recommendation | None) -> Session:
    """Resume the finished sweep; its answer recommends this model."""
    session = sweep.open(kept=KEPT)
    return session.finish(tags={"mlflow.note.content": "The answer."}, front=(), recommended=answer)


def folder_of(model: Any) -> Path:
    """Return the folder with the files of a logged model."""
    return Path(unquote(urlsplit(model.artifact_location).path))


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def make_checkpoint(folder: Path, *, weights: bytes = bytes(range(256)) * 64) -> Path:
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer" / "vocab.json").write_text('{"a": 0}')
    return folder
