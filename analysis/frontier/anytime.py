"""How much hypervolume a sweep had after how much compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.frontier import hypervolume, nondominated
from analysis.tables.trade_off import Floats, Mask, Objective, scored
from analysis.tables.trial_table import TrialTable, numbers


@dataclass(frozen=True, slots=True, eq=False)
class AnytimeCurve:
    """A step curve: after ``seconds[i]`` of trials the frontier had ``hypervolume[i]``.

    Attributes:
        seconds: (n,), trial-seconds spent when each trial ended, all its predecessors included; rises.
        hypervolume: (n,), in [0, 1]; never falls.
    """

    seconds: Floats
    hypervolume: Floats


def anytime_data(table: TrialTable, objectives: Sequence[Objective]) -> AnytimeCurve:
    """The curve over all trials that have ended; one adds all the models of ``table.models`` that are its.

    A diverged or failed one costs its seconds also where it adds no volume.

    A trial's cost is ``train_seconds`` plus ``eval_seconds``: the time it held its worker also holds the start of the
    worker and the loading of the model, which whoever comes first pays for all. Only where a trial has no
    ``train_seconds`` it is ``wall_seconds``; without either it is nothing. A point that the sweep had run before, and
    so took over from itself, costs nothing. With trials side by side the sum is not time on a clock. The order is that
    of ``ended_at``; trials without it come in the order of the table.

    Raises:
        AnalysisError: the table lacks a column of the objectives.
    """
    trials = table.trials
    if "ended_at" in trials.columns:
        trials = trials.sort_values("ended_at", kind="stable")
    seconds = _seconds(trials)
    models = table.models.trials.reset_index(drop=True)
    usable, costs = scored(models, objectives)
    places = models[usable].groupby(["sweep", "trial_id"]).indices
    costs, volumes = costs[usable], np.zeros(len(trials))
    front, volume = np.empty((0, len(objectives))), 0.0
    for index, key in enumerate(zip(trials["sweep"], trials["trial_id"], strict=True)):
        if key in places:
            front = np.vstack([front, costs[places[key]]])
            front = front[nondominated(front)]
            volume = max(volume, hypervolume(front))
        volumes[index] = volume
    return AnytimeCurve(np.cumsum(np.nan_to_num(seconds)), volumes)


def _seconds(trials: pd.DataFrame) -> Floats:
    train, evaluation, wall = (numbers(trials, f"{part}_seconds").to_numpy() for part in ("train", "eval", "wall"))
    own = train + np.nan_to_num(evaluation)
    return np.where(_repeated(trials), 0.0, np.where(np.isnan(own), wall, own))


def _repeated(trials: pd.DataFrame) -> Mask:
    """Whether a trial was taken over from one of the same sweep."""
    if not {"reused_from", "spec_hash"} <= set(trials.columns):
        return np.zeros(len(trials), dtype=bool)
    taken: list[bool] = (trials["reused_from"].notna() & (trials["reused_from"] != "")).tolist()
    places = list(zip(trials["sweep"], trials["spec_hash"], strict=True))
    trained = {place for place, elsewhere in zip(places, taken, strict=True) if not elsewhere}
    return np.array([there and place in trained for place, there in zip(places, taken, strict=True)], dtype=bool)
