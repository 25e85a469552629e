"""The hand-tuned side: the hypervolume of a choice of rates, and the per-c oracle's choice."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.study.lr_grid import Unit
from analysis.study.placed_trials import Setting

_MOST_ASSIGNMENTS = 4096


def oracle_choice(
    hand: Mapping[float, Mapping[int, Unit]], single: Mapping[Setting, float], tuning: Sequence[int]
) -> dict[Setting, float]:
    """For every setting its own rate, to the largest mean hypervolume on the tuning seeds.

    Exact where there are few enough assignments, else by improving one setting at a time from the best single rate.
    """
    rates, settings = tuple(hand), tuple(single)
    best, top = dict(single), mean_volume(hand, single, tuning)
    if len(rates) ** len(settings) <= _MOST_ASSIGNMENTS:
        for assigned in itertools.product(rates, repeat=len(settings)):
            choice = dict(zip(settings, assigned, strict=True))
            if (volume := mean_volume(hand, choice, tuning)) > top:
                best, top = choice, volume
        return best
    improved = True
    while improved:
        improved = False
        for setting, rate in itertools.product(settings, rates):
            choice = best | {setting: rate}
            if (volume := mean_volume(hand, choice, tuning)) > top:
                best, top, improved = choice, volume, True
    return best


def volume_on(hand: Mapping[float, Mapping[int, Unit]], choice: Mapping[Setting, float], seed: int) -> float:
    """The hypervolume of the front that these rates have on a seed."""
    costs = [hand[rate][seed].trials[setting].costs for setting, rate in choice.items()]
    finished = [item for item in costs if item is not None]
    return hypervolume(np.stack(finished)) if finished else 0.0


def mean_volume(
    hand: Mapping[float, Mapping[int, Unit]], choice: Mapping[Setting, float], seeds: Sequence[int]
) -> float:
    """Its mean over seeds."""
    return float(np.mean([volume_on(hand, choice, seed) for seed in seeds]))
