"""Choose the hand-tuned learning rates, and check whether a better rate may lie outside the grid of tried rates.

An *edge* of the grid is its lowest or its highest rate. All other rates are *inner* rates.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.study.lr_grid import Arm
from analysis.study.paired import TIE
from analysis.study.study_runs import Configuration

_MOST_ASSIGNMENTS = 4096
_STEP = 10**0.5
"""The factor between a single tried rate and the rates to try next."""


@dataclass(frozen=True, slots=True)
class EdgeOptimum:
    """The edges of the grid that are best rates. A rate outside the grid may be even better.

    Attributes:
        rates: the tried rates, in ascending order.
        beyond: the rates to try next: for each edge that is a best rate, one rate outside the grid.
        nothing: whether the hypervolume is zero at every tried rate.
    """

    rates: tuple[float, ...]
    beyond: tuple[float, ...]
    nothing: bool


def edge_of_curve(rates: Sequence[float], volumes: Sequence[float]) -> EdgeOptimum | None:
    """Return the edges with the highest mean hypervolume; None if an inner rate is at least as good.

    The result has both edges if only one rate was tried, or if every mean hypervolume is 0. ``volumes`` has the mean
    hypervolume of each rate in ``rates``.
    """
    nothing = max(volumes) <= 0
    if len(rates) == 1 or nothing:
        return _edge(rates, low=True, high=True, nothing=nothing)
    if best_rate(rates, volumes) in rates[1:-1]:
        return None
    ties = _ties(volumes)
    return _edge(rates, low=0 in ties, high=len(rates) - 1 in ties)


def edge_of_choice(hand: Arm, choice: Mapping[Configuration, float], tuning: Sequence[int]) -> EdgeOptimum | None:
    """Return the edges that are the best rate of at least one configuration; None if there are no such edges.

    An edge is the best rate of a configuration if ``choice`` assigns it to the configuration, and if the next inner
    rate gives a lower mean hypervolume on the tuning seeds. With a single tried rate, the result has both edges.

    Args:
        hand: the Pareto fronts at the fixed rates.
        choice: the chosen rate of each configuration.
        tuning: the tuning seeds.
    """
    rates = tuple(hand)
    if len(rates) == 1:
        return _edge(rates, low=True, high=True)
    top = mean_volume(hand, choice, tuning)
    inner = {rates[0]: rates[1], rates[-1]: rates[-2]}
    best_edges = {
        rate
        for item, rate in choice.items()
        if rate in inner and mean_volume(hand, {**choice, item: inner[rate]}, tuning) < top
    }
    return _edge(rates, low=rates[0] in best_edges, high=rates[-1] in best_edges) if best_edges else None


def best_rate(rates: Sequence[float], volumes: Sequence[float]) -> float:
    """Return the rate with the highest mean hypervolume. Ties go to an inner rate, then to the lowest rate."""
    ties = _ties(volumes)
    inner = [index for index in ties if 0 < index < len(rates) - 1]
    return rates[(inner or ties)[0]]


def oracle_choice(
    hand: Arm, single: Mapping[Configuration, float], tuning: Sequence[int]
) -> dict[Configuration, float]:
    """Choose a rate for each configuration to maximize the mean hypervolume on the tuning seeds.

    If there are at most 4096 combinations of rates, all combinations are tried. Otherwise, the search starts from
    ``single``, the choice of the same rate for all configurations. It changes the rate of one configuration at a time,
    until no change improves the hypervolume.
    """
    rates, configurations = tuple(hand), tuple(single)
    best, top = dict(single), mean_volume(hand, single, tuning)
    if len(rates) ** len(configurations) <= _MOST_ASSIGNMENTS:
        for assigned_rates in itertools.product(rates, repeat=len(configurations)):
            choice = dict(zip(configurations, assigned_rates, strict=True))
            if (volume := mean_volume(hand, choice, tuning)) > top:
                best, top = choice, volume
        return best
    improved = True
    while improved:
        improved = False
        for item, rate in itertools.product(configurations, rates):
            choice = best | {item: rate}
            if (volume := mean_volume(hand, choice, tuning)) > top:
                best, top, improved = choice, volume, True
    return best


def mean_volume(hand: Arm, choice: Mapping[Configuration, float], seeds: Sequence[int]) -> float:
    """Return the mean hypervolume over the seeds if each configuration uses its chosen rate."""
    return float(np.mean([hand.front_of_choice(choice, seed).hypervolume() for seed in seeds]))


def _ties(volumes: Sequence[float]) -> list[int]:
    top = max(volumes)
    return [index for index, volume in enumerate(volumes) if volume >= top - TIE]


def _edge(rates: Sequence[float], *, low: bool, high: bool, nothing: bool = False) -> EdgeOptimum:
    steps = np.array(rates[1:]) / np.array(rates[:-1]) if len(rates) > 1 else np.array([_STEP])
    beyond = [rates[0] / steps[0]] * low + [rates[-1] * steps[-1]] * high
    return EdgeOptimum(tuple(rates), tuple(map(float, beyond)), nothing)
