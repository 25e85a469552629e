"""The reports of a run: one row of history.csv after every epoch, and the outcome at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Status(StrEnum):
    """How a trial ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a run after an epoch.

    Attributes:
        step, epoch: optimizer steps and passes over the forget set so far; part of a pass counts as a fraction.
        training: means over the epoch's steps (``c_t``, gradient norms, the two training losses) and the present
            ``lr``.
        losses: on the fixed evaluation sets; empty after an epoch that was not evaluated.
        padding: share of padding among all positions of the training batches so far.
        final: the chosen metrics, in the last report of a finished run and whenever ``metrics_every`` asks for them.
        generation_seconds: the part of ``eval_seconds`` that generated answers.
        status: None while the run continues.
        error: why a run diverged.
        auto_lr: AutoLR's updates since the previous report, as rows of auto_lr.csv without the trial's id.
    """

    step: int
    epoch: float
    training: Mapping[str, float]
    losses: Mapping[str, float]
    train_seconds: float
    eval_seconds: float
    padding: float | None = None
    final: Mapping[str, float] = field(default_factory=dict)
    status: Status | None = None
    error: str | None = None
    auto_lr: tuple[Mapping[str, object], ...] = ()
    generation_seconds: float = 0.0

    @property
    def evaluated(self) -> bool:
        """Whether the losses belong to this epoch; those of a run that diverged belong to an earlier one."""
        return bool(self.losses) and self.status is not Status.DIVERGED

    def row(self) -> dict[str, object]:
        """Return the columns of history.csv, without the trial's id."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            **self.training,
            **self.losses,
            **self.final,
            "padding": self.padding,
            "seconds": self.train_seconds + self.eval_seconds,
        }

    def outcome(self) -> dict[str, object]:
        """Return the columns of trials.csv that a run knows itself, from its last report."""
        return {
            "status": str(self.status),
            "steps": self.step,
            "epochs_done": self.epoch,
            **self.losses,
            **self.final,
            "padding": self.padding,
            "train_seconds": self.train_seconds,
            "eval_seconds": self.eval_seconds,
            "generation_seconds": self.generation_seconds,
            "interpolation": self.training.get("interpolation"),
            "error": self.error,
        }
