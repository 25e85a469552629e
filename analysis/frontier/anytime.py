"""Compute the hypervolume of a sweep as a function of the compute spent."""

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
    """A step curve: after ``seconds[i]`` of trial time the hypervolume was ``hypervolume[i]``; both have shape (n,)."""

    seconds: Floats
    hypervolume: Floats


def anytime_data(table: TrialTable, objectives: Sequence[Objective]) -> AnytimeCurve:
    """Return the curve over all trials that have ended, in the order of ``ended_at``. Each trial adds all its models.

    A trial costs ``train_seconds`` plus ``eval_seconds``, or ``wall_seconds`` if the former is missing. The start of
    its worker is left out, because it depends on which trial comes first. A trial reused from the same sweep costs
    nothing. If trials run in parallel, the sum is not wall-clock time.

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
    """Return whether each trial was reused from a trial of the same sweep."""
    if not {"reused_from", "spec_hash"} <= set(trials.columns):
        return np.zeros(len(trials), dtype=bool)
    taken: list[bool] = (trials["reused_from"].notna() & (trials["reused_from"] != "")).tolist()
    places = list(zip(trials["sweep"], trials["spec_hash"], strict=True))
    trained = {place for place, elsewhere in zip(places, taken, strict=True) if not elsewhere}
    return np.array([there and place in trained for place, there in zip(places, taken, strict=True)], dtype=bool)
