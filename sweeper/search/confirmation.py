"""Plan the confirm trials: train the configuration behind the answer again, with fresh seeds.

The answer is the best of many models, so its score is partly luck. Fresh runs show whether its configuration meets the
criterion again. The two runners-up are trained only if the configurations before them do not hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.common.messages import counted
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import Phase
from sweeper.store.state import SweepState, Trial

if TYPE_CHECKING:
    from analysis.frontier.confirmation import Confirmed

AUTOMATIC_SHARE = 0.25
"""If ``--confirm`` is not given, fresh runs train at most this share of the epochs that the search has trained."""


@dataclass(frozen=True, slots=True)
class FreshRun:
    """A run of a trial's configuration up to ``epoch``, with a seed that the search has not used."""

    trial_id: str
    epoch: float
    seed: int

    @classmethod
    def of(cls, trial: Trial) -> FreshRun:
        """Return the run of a confirm trial."""
        return cls(trial.confirms, float(trial.settings["stop_epoch"]), int(trial.settings["seed"]))


@dataclass(frozen=True, slots=True)
class PlannedRuns:
    """The fresh runs that a new sweep may start after its search.

    Attributes:
        seeds: the seeds of the runs of each confirmed model.
        epochs: the number of epochs of the answer's runs, if the answer is a last epoch.
        max_epochs: the same with the runs of both runners-up.
        max_share: the maximum number of epochs as a fraction of the epochs of the search; None if unlimited.
    """

    seeds: tuple[int, ...]
    epochs: int
    max_epochs: int
    max_share: float | None

    @classmethod
    def of(cls, settings: SweepSettings) -> PlannedRuns | None:
        """Return the plan of a sweep, or None if the sweep starts no fresh runs."""
        from analysis.frontier.choice import RUNNERS_UP

        seeds = settings.fresh_seeds
        epochs = len(seeds) * settings.base.epochs
        share = AUTOMATIC_SHARE if settings.confirm is None else None
        return cls(seeds, epochs, (1 + RUNNERS_UP) * epochs, share) if seeds else None

    def format(self) -> str:
        seeds = ", ".join(map(str, self.seeds))
        runs = f"{counted(len(self.seeds), 'fresh run')} of the recommended configuration (seeds {seeds})"
        if self.max_share is not None:
            return f"{runs}, if they train at most {self.max_share:.0%} of the epochs of the search"
        return f"{runs}: at most {self.epochs} epochs, or {self.max_epochs} if its runners-up are trained, too"


def epoch_allowance(settings: SweepSettings, state: SweepState) -> float:
    """Return the number of epochs that confirm trials may train."""
    return AUTOMATIC_SHARE * state.trained_epochs if settings.confirm is None else math.inf


def missing_runs(models: Sequence[Confirmed], settings: SweepSettings, state: SweepState) -> list[FreshRun]:
    """Return the runs to start next; empty if no run is needed, or if the next runs exceed the allowance.

    Args:
        models: the answer and its runners-up, best first, with the results of their fresh runs so far.
    """
    runs = wanted_runs(models, settings, state)
    left = epoch_allowance(settings, state) - sum(run.epoch for run in _existing_runs(state))
    return runs if sum(run.epoch for run in runs) <= left else []


def wanted_runs(models: Sequence[Confirmed], settings: SweepSettings, state: SweepState) -> list[FreshRun]:
    """Return the runs to start next, whatever they cost; empty if no run is needed. ``models`` is the same as above."""
    existing = _existing_runs(state)
    for model in models:
        runs = [FreshRun(model.trial_id, model.epoch, seed) for seed in settings.fresh_seeds]
        if missing := [run for run in runs if run not in existing]:
            return missing
        if model.holds:
            return []
    return []


def _existing_runs(state: SweepState) -> list[FreshRun]:
    return [FreshRun.of(trial) for trial in state.trials_of(Phase.CONFIRM)]
