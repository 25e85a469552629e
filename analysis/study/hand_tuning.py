"""The hand-tuned side: the best single rate, the per-c oracle, and whether a best rate may lie outside the grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.study.lr_grid import Arm
from analysis.study.paired import TIE
from analysis.study.study_runs import Configuration

_MOST_ASSIGNMENTS = 4096
_STEP = 10**0.5
"""The ratio to the next rate if only one rate was tried."""


@dataclass(frozen=True, slots=True)
class GridEdge:
    """A best rate with no worse rate beyond it.

    Attributes:
        rates: the rates tried, rising.
        beyond: the rates to try next.
        nothing: whether no rate attains anything.
    """

    rates: tuple[float, ...]
    beyond: tuple[float, ...]
    nothing: bool = False


def edge_of_curve(rates: Sequence[float], volumes: Sequence[float]) -> GridEdge | None:
    """The edge at which the hypervolume is highest, None for a peak inside; ``volumes`` are means, shape (L,).

    An inner rate that does as well as the one at the edge is a peak inside.
    """
    nothing = max(volumes) <= 0
    if len(rates) == 1 or nothing:
        return _edge(rates, low=True, high=True, nothing=nothing)
    if best_rate(rates, volumes) in rates[1:-1]:
        return None
    ties = _ties(volumes)
    return _edge(rates, low=0 in ties, high=len(rates) - 1 in ties)


def edge_of_choice(
    rates: Sequence[float],
    choice: Mapping[Configuration, float],
    mean_volume: Callable[[Mapping[Configuration, float]], float],
) -> GridEdge | None:
    """The edges at which a configuration has its rate and would be worse off with the next rate inwards."""
    if len(rates) == 1:
        return _edge(rates, low=True, high=True)
    top = mean_volume(choice)
    ends = {rates[0]: rates[1], rates[-1]: rates[-2]}
    held = {rate for item, rate in choice.items() if rate in ends and mean_volume({**choice, item: ends[rate]}) < top}
    return _edge(rates, low=rates[0] in held, high=rates[-1] in held) if held else None


def best_rate(rates: Sequence[float], volumes: Sequence[float]) -> float:
    """The rate with the highest mean. Ties go to an inner rate, then to the lowest."""
    ties = _ties(volumes)
    inner = [place for place in ties if 0 < place < len(rates) - 1]
    return rates[(inner or ties)[0]]


def oracle_choice(
    hand: Arm, single: Mapping[Configuration, float], tuning: Sequence[int]
) -> dict[Configuration, float]:
    """A rate for every configuration, chosen for the largest mean hypervolume on the tuning seeds.

    Exact if there are few enough assignments, else by improving one configuration at a time from the best single rate.
    """
    rates, configurations = tuple(hand), tuple(single)
    best, top = dict(single), mean_volume(hand, single, tuning)
    if len(rates) ** len(configurations) <= _MOST_ASSIGNMENTS:
        for assigned in itertools.product(rates, repeat=len(configurations)):
            choice = dict(zip(configurations, assigned, strict=True))
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


def volume_on(hand: Arm, choice: Mapping[Configuration, float], seed: int) -> float:
    """The hypervolume of the front of these rates on a seed."""
    costs = [hand[rate][seed].runs[item].costs for item, rate in choice.items()]
    finished = [item for item in costs if item is not None]
    return hypervolume(np.stack(finished)) if finished else 0.0


def mean_volume(hand: Arm, choice: Mapping[Configuration, float], seeds: Sequence[int]) -> float:
    """The hypervolume of :func:`volume_on`, mean over seeds."""
    return float(np.mean([volume_on(hand, choice, seed) for seed in seeds]))


def _ties(volumes: Sequence[float]) -> list[int]:
    """The places of the highest mean."""
    top = max(volumes)
    return [place for place, volume in enumerate(volumes) if volume >= top - TIE]


def _edge(rates: Sequence[float], *, low: bool, high: bool, nothing: bool = False) -> GridEdge:
    steps = np.array(rates[1:]) / np.array(rates[:-1]) if len(rates) > 1 else np.array([_STEP])
    beyond = [rates[0] / steps[0]] * low + [rates[-1] * steps[-1]] * high
    return GridEdge(tuple(rates), tuple(map(float, beyond)), nothing)
