"""Compute the hypervolume that a sweep had reached after each amount of trial time."""

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
    """A step curve: after ``seconds[i]`` of trial time, the hypervolume was ``hypervolume[i]``. Shapes (n,)."""

    seconds: Floats
    hypervolume: Floats


def anytime_data(table: TrialTable, objectives: Sequence[Objective]) -> AnytimeCurve:
    """Return the curve for all ended trials, in the order in which they ended. Each trial adds all its models.

    The time of a trial is ``train_seconds`` plus ``eval_seconds``, or ``wall_seconds`` if these columns are missing.
    The startup time of a worker is not counted, because otherwise the worker's first trial would seem slower. A trial
    that was reused from the same sweep takes no time. If trials run in parallel, the sum of their times is not
    wall-clock time.
    """
    trials = table.trials
    if "ended_at" in trials.columns:
        trials = trials.sort_values("ended_at", kind="stable")
    train, evaluation, wall = (numbers(trials, f"{part}_seconds") for part in ("train", "eval", "wall"))
    seconds = (train + evaluation.fillna(0.0)).fillna(wall).fillna(0.0).mask(_is_repeated(trials), 0.0)
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
    return AnytimeCurve(np.cumsum(seconds.to_numpy()), volumes)


def _is_repeated(trials: pd.DataFrame) -> Mask:
    """Return a mask of the trials whose result was reused from another trial of the same sweep."""
    if not {"reused_from", "spec_hash"} <= set(trials.columns):
        return np.zeros(len(trials), dtype=bool)
    reused = (trials["reused_from"].notna() & (trials["reused_from"] != "")).to_numpy()
    specs = pd.MultiIndex.from_frame(trials[["sweep", "spec_hash"]])
    return np.asarray(reused & specs.isin(specs[~reused]), dtype=bool)
