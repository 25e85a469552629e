"""Build the logged models of a sweep's kept checkpoints: parameters, tags and metrics."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sweeper.followers.mlflow.runs import TrackedSweep, ended_at, finite_metrics, fit_tags, milliseconds
from sweeper.store.columns import METRIC_COLUMNS
from sweeper.store.state import Trial
from trainables.run.reports import EpochReport
from trainables.worker.candidates import candidate_folder


class Checkpoints(Protocol):
    """The checkpoints of intermediate epochs that a sweep keeps. All methods may be called in any thread."""

    @property
    def kept_epochs(self) -> Mapping[str, Collection[float]]:
        """The epochs whose checkpoints are kept, by trial id."""

    def has_model(self, folder: str) -> bool:
        """Return whether a checkpoint exists. ``folder`` is relative to the sweep's folder."""

    def was_deleted(self, folder: str) -> bool:
        """Return whether ``--keep-checkpoints`` has deleted a checkpoint."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a metric. ``time_ms`` is in milliseconds since 1970; ``step`` counts optimizer steps."""

    name: str
    value: float
    time_ms: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModel:
    """A kept checkpoint, to be recorded as a logged model.

    Attributes:
        key: the name of the model, which is unique in the sweep, such as ``00007 epoch 3``.
        folder: the checkpoint's folder, relative to the sweep's folder.
        is_last: whether the checkpoint is that of the trial's last epoch.
    """

    key: str
    trial_id: str
    epoch: float
    folder: str
    is_last: bool
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: Sequence[Point]

    @property
    def step(self) -> int:
        """The epoch, rounded up because a step of MLflow is an integer."""
        return math.ceil(self.epoch)

    @property
    def metrics(self) -> dict[str, float]:
        return {point.name: point.value for point in self.points}


def kept_models(sweep: TrackedSweep, trial: Trial, checkpoints: Checkpoints) -> Iterator[NewModel]:
    """Yield the models of a trial whose checkpoints are kept, the last epoch's model last."""
    kept_epochs = checkpoints.kept_epochs.get(trial.id, ())
    last_folder = None if trial.outcome is None else trial.outcome.checkpoint
    for report in trial.candidates() if kept_epochs else ():
        folder = candidate_folder(trial.id, report.epoch)
        is_last = last_folder is not None and report.step == trial.last_step
        if report.epoch in kept_epochs and not is_last and checkpoints.has_model(folder):
            yield _model(sweep, trial, report, report.values, folder=folder, is_last=False)
    if trial.outcome is not None and last_folder is not None and not checkpoints.was_deleted(last_folder):
        reports = trial.reports or [EpochReport(trial.outcome.steps or 0, trial.outcome.epochs_done or 0.0)]
        values = {**trial.outcome.values, **trial.measured.get(trial.last_step, {})}
        yield _model(sweep, trial, reports[-1], values, folder=last_folder, is_last=True)


def model_key(trial_id: str, epoch: float) -> str:
    """Return the name of an epoch's model, such as ``00007 epoch 3``. MLflow allows no dot in a name."""
    return f"{trial_id} epoch {epoch:g}".replace(".", ",")


def _model(
    sweep: TrackedSweep, trial: Trial, report: EpochReport, values: Mapping[str, float], *, folder: str, is_last: bool
) -> NewModel:
    run = sweep.trial_run(trial)
    own_tags = {"epoch": f"{report.epoch:g}", "checkpoint": folder}
    names = ("sweep", "sweep_id", "trial_id", "phase", "spec_hash")
    # MLflow's list of models shows the metrics in the order in which they were logged.
    names_in_order = dict.fromkeys(["epoch", *sweep.columns, *METRIC_COLUMNS])
    metrics = finite_metrics({**values, "epoch": report.epoch}, names_in_order)
    # MLflow stores a value once if the run already has the value with the same time and step.
    reported = {**report.values, "epoch": report.epoch}
    reported_ms, ended_ms = milliseconds(report.reported_at), milliseconds(ended_at(trial))
    return NewModel(
        key=model_key(trial.id, report.epoch),
        trial_id=trial.id,
        epoch=report.epoch,
        folder=folder,
        is_last=is_last,
        params=run.params,
        tags={name: run.tags[name] for name in names if name in run.tags} | fit_tags(own_tags),
        points=[
            Point(name, value, reported_ms if reported.get(name) == value else ended_ms, report.step)
            for name, value in metrics.items()
        ],
    )
