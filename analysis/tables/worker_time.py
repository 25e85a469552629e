"""Compute how much time the workers spent on each kind of work, such as training steps or evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.tables.trial_table import numbers

_COLUMNS = ("train_seconds", "eval_seconds", "wall_seconds", "started_at", "first_step_at", "ended_at")


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """The seconds that all ``workers`` together spent on each kind of work, keyed by the name of the work."""

    workers: int
    kinds: dict[str, float]

    @property
    def total(self) -> float:
        """The seconds spent on all kinds of work together."""
        return sum(self.kinds.values())

    @property
    def useful(self) -> float:
        """The share of the workers' time that was spent on training and evaluation, in [0, 1]."""
        return sum(list(self.kinds.values())[:3]) / self.total


def worker_time(trials: pd.DataFrame) -> WorkerTime | None:
    """Return how the workers of these trials spent their time; None if the table lacks the times.

    Trials that were reused from previous sweeps are ignored.
    """
    if not {*_COLUMNS, "worker"} <= set(trials.columns):
        return None
    if "reused_from" in trials.columns:
        trials = trials[trials["reused_from"].isna() | (trials["reused_from"] == "")]
    timed = pd.DataFrame({name: numbers(trials, name) for name in _COLUMNS}).dropna()
    if timed.empty:
        return None
    trials = trials.loc[timed.index]
    by_start = timed.sort_values("started_at")
    previous_end = by_start["ended_at"].groupby(trials["worker"]).shift()
    training, evaluation = float(timed["train_seconds"].sum()), float(timed["eval_seconds"].sum())
    generation = float(numbers(trials, "generation_seconds").sum())
    start = float((timed["first_step_at"] - timed["started_at"]).clip(lower=0.0).sum())
    return WorkerTime(
        workers=trials["worker"].nunique(),
        kinds={
            "training steps": training,
            "losses and metrics": max(0.0, evaluation - generation),
            "generation of answers": generation,
            # The first trial of a worker loads the model.
            "until a trial's first step": start,
            "between trials": float((by_start["started_at"] - previous_end).clip(lower=0.0).sum()),
            "checkpoints and waiting": max(0.0, float(timed["wall_seconds"].sum()) - training - evaluation - start),
        },
    )
