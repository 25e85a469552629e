"""Compute how the workers spent their time, by kind of work."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.tables.trial_table import numbers

_COLUMNS = ("train_seconds", "eval_seconds", "wall_seconds", "started_at", "first_step_at", "ended_at", "worker")


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """The seconds that all workers together spent on each kind of work; ``rest`` is checkpoints and waiting.

    ``start`` is the time from the start of a trial to its first step (a worker's first trial loads the model), and
    ``between`` the time from the end of a trial to the start of the next trial on the same worker.
    """

    workers: int
    training: float
    losses_and_metrics: float
    generation: float
    start: float
    between: float
    rest: float

    @property
    def total(self) -> float:
        """The total of all kinds of work, in seconds."""
        return sum(self.kinds.values())

    @property
    def useful(self) -> float:
        """The share of time spent on training and evaluation."""
        return (self.training + self.losses_and_metrics + self.generation) / self.total

    @property
    def kinds(self) -> dict[str, float]:
        """The seconds spent on each kind of work, keyed by its name."""
        return {
            "training steps": self.training,
            "losses and metrics": self.losses_and_metrics,
            "generation of answers": self.generation,
            "until a trial's first step": self.start,
            "between trials": self.between,
            "checkpoints and waiting": self.rest,
        }


def worker_time(trials: pd.DataFrame) -> WorkerTime | None:
    """Return the time of the workers of these trials; reused trials are ignored. None if the table lacks the times."""
    if not set(_COLUMNS) <= set(trials.columns):
        return None
    if "reused_from" in trials.columns:
        trials = trials[trials["reused_from"].isna() | (trials["reused_from"] == "")]
    timed = pd.DataFrame({name: numbers(trials, name) for name in _COLUMNS[:-1]}).dropna()
    timed["generation"] = numbers(trials.loc[timed.index], "generation_seconds").fillna(0.0)
    timed["worker"] = trials.loc[timed.index, "worker"]
    if timed.empty:
        return None
    gaps = 0.0
    for _, of_worker in timed.sort_values("started_at").groupby("worker"):
        waited = of_worker["started_at"].iloc[1:].to_numpy() - of_worker["ended_at"].iloc[:-1].to_numpy()
        gaps += float(waited.clip(min=0.0).sum())
    training, evaluation, generation = (
        float(timed[name].sum()) for name in ("train_seconds", "eval_seconds", "generation")
    )
    start = float((timed["first_step_at"] - timed["started_at"]).clip(lower=0.0).sum())
    rest = max(0.0, float(timed["wall_seconds"].sum()) - training - evaluation - start)
    return WorkerTime(
        workers=timed["worker"].nunique(),
        training=training,
        losses_and_metrics=max(0.0, evaluation - generation),
        generation=generation,
        start=start,
        between=gaps,
        rest=rest,
    )
