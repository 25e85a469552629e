"""Compute the time and the CPU and GPU hours of a sweep, and estimate the remaining trials and time."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from analysis.words import duration
from search_spaces.common.messages import counted
from sweeper.settings.resources import Resources
from sweeper.store.events import Settings
from sweeper.store.state import Stage, SweepState


@dataclass(frozen=True, slots=True)
class Cost:
    """The total wall-clock and GPU seconds of a set of trials. ``resources`` are the resources of one trial."""

    seconds: float
    resources: Resources
    gpu_seconds: float

    @property
    def gpu_hours(self) -> float:
        """The GPU hours. Half a GPU for one hour counts as 0.5."""
        return self.gpu_seconds / 3600

    @property
    def cpu_hours(self) -> float:
        """The CPU hours. Two CPUs for one hour count as 2."""
        return self.seconds * self.resources.cpus / 3600

    def __str__(self) -> str:
        hours = f"{self.gpu_hours:.3g} GPU hours" if self.resources.gpus else f"{self.cpu_hours:.3g} CPU hours"
        return f"{duration(self.seconds)} of trial time, {hours}"


def cost_of(state: SweepState, resources: Resources, *, is_running: bool = True) -> Cost:
    """Return the total time of all ended trials. If ``is_running`` is true, include the running trials.

    Trials with copied results do not count.
    """
    now = time.time()
    gpu_times: list[tuple[float, float]] = []
    for trial in list(state.trials.values()):
        if trial.stage is Stage.RUNNING:
            if is_running:
                gpu_times.append((max(0.0, now - trial.started_at), resources.gpus))
        elif trial.outcome is not None and not trial.reused_from:
            execution = trial.outcome.execution
            if execution.wall_seconds is not None:
                gpu_share = resources.gpus if execution.gpu_share is None else execution.gpu_share
                gpu_times.append((execution.wall_seconds, gpu_share))
    total_seconds = sum(seconds for seconds, _ in gpu_times)
    gpu_seconds = sum(seconds * gpus for seconds, gpus in gpu_times)
    return Cost(seconds=total_seconds, resources=resources, gpu_seconds=gpu_seconds)


@dataclass(frozen=True, slots=True)
class Remaining:
    """The estimated number and duration of the remaining trials. ``seconds`` is None until a trial has ended."""

    trials: int
    seconds: float | None = None

    def __str__(self) -> str:
        time_left = "" if self.seconds is None else f" in {duration(self.seconds)}"
        return f"about {counted(self.trials, 'trial')}{time_left}"


def remaining(state: SweepState, *, trials: int, epochs_left: float | None, max_concurrent: int) -> Remaining:
    """Estimate the number and the duration of the remaining trials from the ended trials.

    ``epochs_left`` is the unused part of the epoch budget; None without a budget.
    """
    outcomes = state.outcomes
    trials_left = max(0, trials - len(outcomes))
    epochs = [outcome.epochs_done for outcome in outcomes if outcome.epochs_done is not None]
    all_seconds = [outcome.execution.wall_seconds for outcome in outcomes]
    seconds = [value for value in all_seconds if value is not None]
    if epochs_left is not None and sum(epochs) > 0:
        trials_left = min(trials_left, math.ceil(epochs_left * len(epochs) / sum(epochs)))
    if not seconds:
        return Remaining(trials_left)
    concurrent = max(1, min(max_concurrent, trials_left))
    return Remaining(trials_left, trials_left / concurrent * sum(seconds) / len(seconds))


def settings_text(settings: Settings) -> str:
    """Return the main settings of a trial as a short text, such as ``gdiff c=0.41 lr=8.3e-05 gen``."""
    parts = [str(settings["method"])]
    if settings.get("c") is not None:
        parts.append(f"c={float(settings['c']):.2f}")
    if settings.get("lr") is not None:
        parts.append(f"lr={float(settings['lr']):.1e}")
    if (rule := settings.get("auto_lr", "off")) != "off":
        parts.append(str(rule))
    return " ".join(parts)
