"""The reports of a run: one after every epoch, and the outcome of the trial."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Literal


class Status(StrEnum):
    """How a trial ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    FAILED = "failed"


@dataclass(slots=True)
class Timers:
    """The seconds that a run has spent on training, evaluation, generation and decisions.

    Evaluation includes generation. Decisions are the evaluations with which interpolation chooses the final weights.
    They are a part of the cost of a run, as training is.
    """

    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    decision_seconds: float = 0.0
    generation_seconds: float = 0.0

    @contextmanager
    def timed(self, activity: Literal["train_seconds", "eval_seconds", "decision_seconds"]) -> Iterator[None]:
        """Add the duration of the block to the field ``activity``, even if the block raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, activity, getattr(self, activity) + time.perf_counter() - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Where and since when a trial runs, and the GPU memory it uses. The fields are columns of trials.csv.

    Attributes:
        worker: the host name and the process id, as ``HOST:PID``.
        started_at, first_step_at: in seconds since 1970; None before the first step.
        wall_seconds: the seconds since ``started_at``.
        retried_with: the memory settings after an out-of-memory error; None if no such error occurred.
        gpu_share, gpu_gb, peak_gpu_gb: the trial's share of a GPU, the memory of this GPU and the trial's peak memory,
            both in GB (1e9 bytes); None without a GPU.
    """

    worker: str | None = None
    started_at: float | None = None
    first_step_at: float | None = None
    wall_seconds: float | None = None
    retried_with: str | None = None
    gpu_share: float | None = None
    gpu_gb: float | None = None
    peak_gpu_gb: float | None = None


@dataclass(frozen=True, slots=True)
class EpochReport:
    """The state of a run after an epoch.

    Attributes:
        step, epoch: the number of optimizer steps and of passes over the forget set so far; ``epoch`` can be 0.5.
        training: the training columns of history.csv, such as the learning rate and means over the epoch's steps.
        losses: the losses on the evaluation sets; empty if they were not measured after this epoch. A diverged run
            reports its last finite losses.
        metrics: the metrics that the spec requests. If they were not measured after this epoch, only those that are
            measured at each evaluation of the losses.
        status: how the run ended; None while the run continues.
        error: the reason why the run diverged; None if the run did not diverge.
        updates: AutoLR's updates of the learning rate since the previous report. Each update is a row of auto_lr.csv
            without the trial's id.
        reported_at: in seconds since 1970.
        execution: None if the run was not started by a Ray worker.
        is_stored: whether the worker uploaded the epoch's model to the sweep's object storage.
    """

    step: int
    epoch: float
    training: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    timers: Timers = field(default_factory=Timers)
    status: Status | None = None
    error: str | None = None
    updates: tuple[Mapping[str, object], ...] = ()
    reported_at: float = field(default_factory=time.time)
    execution: Execution | None = None
    is_stored: bool = False

    @property
    def evaluated(self) -> bool:
        """Whether the losses were measured after this epoch."""
        return bool(self.losses) and self.status is not Status.DIVERGED

    @property
    def values(self) -> dict[str, float]:
        """The losses and metrics by name."""
        return {**self.losses, **self.metrics}

    def row(self) -> dict[str, object]:
        """Return the columns for history.csv, without the trial's id."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            **self.training,
            **self.values,
            "seconds": self.timers.train_seconds + self.timers.eval_seconds + self.timers.decision_seconds,
            "reported_at": self.reported_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a trial. A failed trial has neither steps nor values.

    Attributes:
        error: the reason why the trial diverged or failed.
        checkpoint: the folder of the final model relative to the sweep's folder; None if there is no model.
        steps, epochs_done: as in the last report.
        interpolation: the position between the target (0) and the last weights (1); None without interpolation.
        steps_undone: the number of steps that restarts discarded; None if the run could not restart.
        lr_updates, lr_updates_accepted: the number of AutoLR's updates, and of those that chose a rate; None without
            AutoLR.
        ended_at: in seconds since 1970.
    """

    status: Status
    error: str | None = None
    checkpoint: str | None = None
    steps: int | None = None
    epochs_done: float | None = None
    losses: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    timers: Timers | None = None
    interpolation: float | None = None
    steps_undone: int | None = None
    lr_updates: int | None = None
    lr_updates_accepted: int | None = None
    execution: Execution = field(default_factory=Execution)
    ended_at: float = field(default_factory=time.time)

    @classmethod
    def after(
        cls, report: EpochReport, *, status: Status, checkpoint: str | None = None, execution: Execution | None = None
    ) -> Outcome:
        """Return the outcome of a trial that ended with this report. ``execution`` defaults to the report's."""
        names = ("steps_undone", "lr_updates", "lr_updates_accepted")
        counts = {name: int(report.training[name]) for name in names if name in report.training}
        return cls(
            status=status,
            error=report.error,
            checkpoint=checkpoint,
            steps=report.step,
            epochs_done=report.epoch,
            losses=report.losses,
            metrics=report.metrics,
            timers=report.timers,
            interpolation=report.training.get("interpolation"),
            **counts,
            execution=execution or report.execution or Execution(),
        )

    @property
    def values(self) -> dict[str, float]:
        """The losses and metrics by name."""
        return {**self.losses, **self.metrics}

    def row(self) -> dict[str, object]:
        """Return the columns for trials.csv, without the trial's id and settings."""
        return {
            "status": str(self.status),
            "steps": self.steps,
            "epochs_done": self.epochs_done,
            **self.values,
            **(asdict(self.timers) if self.timers is not None else {}),
            **asdict(self.execution),
            "interpolation": self.interpolation,
            "steps_undone": self.steps_undone,
            "lr_updates": self.lr_updates,
            "lr_updates_accepted": self.lr_updates_accepted,
            "checkpoint": self.checkpoint,
            "error": self.error,
            "ended_at": self.ended_at,
        }
