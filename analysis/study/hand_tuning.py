"""Choose the best fixed learning rate, and check whether a better rate may lie outside the grid of tried rates.

An *edge* of the grid is its lowest or its highest rate. All other rates are *inner* rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.study.paired import TIE

_STEP = 10**0.5
"""The factor between a single tried rate and the rates to try next."""


@dataclass(frozen=True, slots=True)
class EdgeOptimum:
    """The edges of the grid that are best rates. A rate outside the grid may be even better.

    Attributes:
        rates: the tried rates, in ascending order.
        beyond: the rates to try next: for each edge that is a best rate, one rate outside the grid.
        nothing: whether the score is zero at every tried rate.
    """

    rates: tuple[float, ...]
    beyond: tuple[float, ...]
    nothing: bool


def edge_of_curve(rates: Sequence[float], scores: Sequence[float]) -> EdgeOptimum | None:
    """Return the edges with the highest score; None if an inner rate is at least as good.

    The result has both edges if only one rate was tried, or if no score is above 0. ``scores`` has the mean score of
    each rate in ``rates``.
    """
    nothing = max(scores) <= 0
    if len(rates) == 1 or nothing:
        low = high = True
    elif best_rate(rates, scores) in rates[1:-1]:
        return None
    else:
        ties = _ties(scores)
        low, high = 0 in ties, len(rates) - 1 in ties
    steps = np.array(rates[1:]) / np.array(rates[:-1]) if len(rates) > 1 else np.array([_STEP])
    beyond = [rates[0] / steps[0]] * low + [rates[-1] * steps[-1]] * high
    return EdgeOptimum(tuple(rates), tuple(map(float, beyond)), nothing)


def best_rate(rates: Sequence[float], scores: Sequence[float]) -> float:
    """Return the rate with the highest score. Ties go to an inner rate, then to the lowest rate."""
    ties = _ties(scores)
    inner = [index for index in ties if 0 < index < len(rates) - 1]
    return rates[(inner or ties)[0]]


def _ties(scores: Sequence[float]) -> list[int]:
    top = max(scores)
    return [index for index, score in enumerate(scores) if score >= top - TIE]
