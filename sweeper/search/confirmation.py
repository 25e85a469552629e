"""Plan the confirm trials: train the configuration behind the answer again, with fresh seeds.

The answer is the best of many models, so its score is partly luck. Fresh runs show whether its configuration meets the
criterion again. The two runners-up are trained only if the configurations before them do not hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.frontier.confirmation import Confirmed
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import Phase
from sweeper.store.state import SweepState, Trial

AUTOMATIC_SHARE = 0.25
"""If ``--confirm`` is not given, fresh runs train at most this share of the epochs that the search has trained."""


MODELS = 3
"""The maximum number of models that are confirmed: the answer and two runners-up."""


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
    for model in models[:MODELS]:
        runs = [FreshRun(model.trial_id, model.epoch, seed) for seed in settings.fresh_seeds]
        if missing := [run for run in runs if run not in existing]:
            return missing
        if model.holds:
            return []
    return []


def _existing_runs(state: SweepState) -> list[FreshRun]:
    return [FreshRun.of(trial) for trial in state.trials_of(Phase.CONFIRM)]
