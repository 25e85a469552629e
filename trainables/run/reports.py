"""The reports of a run: one after every epoch, with the outcome in the last report."""

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
    """The seconds that a run has spent on training, evaluation and generation. Evaluation includes generation."""

    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    generation_seconds: float = 0.0

    @contextmanager
    def timed(self, activity: Literal["train_seconds", "eval_seconds"]) -> Iterator[None]:
        """Add the duration of the block to the field ``activity``, even if the block raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, activity, getattr(self, activity) + time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class EpochReport:
    """The state of a run after an epoch. The fields become columns of history.csv and trials.csv.

    Attributes:
        step, epoch: the number of optimizer steps and of passes over the forget set so far; ``epoch`` can be 0.5.
        training: the training columns of history.csv, such as the learning rate and means over the epoch's steps.
        losses: the losses on the evaluation sets; empty if they were not measured after this epoch. A diverged run
            reports its last finite losses.
        metrics: the metrics that the spec requests; empty if they were not measured after this epoch.
        status: how the run ended; None while the run continues.
        error: the reason why the run diverged; None if the run did not diverge.
        auto_lr: AutoLR's updates of the learning rate since the previous report. Each update is a row of auto_lr.csv
            without the trial's id.
    """

    step: int
    epoch: float
    training: Mapping[str, float]
    losses: Mapping[str, float]
    timers: Timers = field(default_factory=Timers)
    metrics: Mapping[str, float] = field(default_factory=dict)
    status: Status | None = None
    error: str | None = None
    auto_lr: tuple[Mapping[str, object], ...] = ()

    @property
    def evaluated(self) -> bool:
        """Whether the losses were measured after this epoch."""
        return bool(self.losses) and self.status is not Status.DIVERGED

    def row(self) -> dict[str, object]:
        """Return the columns for history.csv, without the trial's id."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            **self.training,
            **self.losses,
            **self.metrics,
            "seconds": self.timers.train_seconds + self.timers.eval_seconds,
        }

    def outcome(self) -> dict[str, object]:
        """Return the run's columns for trials.csv. Only the last report of a run has a status."""
        return {
            "status": str(self.status),
            "steps": self.step,
            "epochs_done": self.epoch,
            **self.losses,
            **self.metrics,
            **asdict(self.timers),
            "interpolation": self.training.get("interpolation"),
            "error": self.error,
        }
