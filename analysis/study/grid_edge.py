"""Whether the best learning rate may lie outside the rates tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.study.paired import TIE
from analysis.study.placed_trials import Setting
from analysis.words import number

_STEP = 10**0.5
"""The next rate after a single one."""


@dataclass(frozen=True, slots=True)
class GridEdge:
    """A best rate with no worse one beyond it.

    Attributes:
        rates: the rates tried, rising.
        beyond: the rates that would have to be tried next.
        nothing: whether no rate attains anything.
    """

    rates: tuple[float, ...]
    beyond: tuple[float, ...]
    nothing: bool = False

    def words(self) -> str:
        """``the best rate is at the edge of the grid (1e-5 to 1e-3): extend it with --lr 0.01 (...)``."""
        more = " ".join(f"--lr {rate:.2g}" for rate in self.beyond)
        if self.nothing:
            why = "no rate of the grid attains anything"
        elif len(self.rates) == 1:
            why = f"only one rate was tried ({number(self.rates[0])})"
        else:
            why = f"the best rate is at the edge of the grid ({number(self.rates[0])} to {number(self.rates[-1])})"
        return f"{why}: extend it with {more} (lr-study --extend adds rates by itself)"


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
    choice: Mapping[Setting, float],
    mean_volume: Callable[[Mapping[Setting, float]], float],
) -> GridEdge | None:
    """The edges at which a setting has its rate and would be worse off with the next one inwards."""
    if len(rates) == 1:
        return _edge(rates, low=True, high=True)
    top = mean_volume(choice)
    ends = {rates[0]: rates[1], rates[-1]: rates[-2]}
    held = {
        rate for setting, rate in choice.items() if rate in ends and mean_volume({**choice, setting: ends[rate]}) < top
    }
    return _edge(rates, low=rates[0] in held, high=rates[-1] in held) if held else None


def best_rate(rates: Sequence[float], volumes: Sequence[float]) -> float:
    """The rate with the highest mean; of equals an inner one, then the lowest."""
    ties = _ties(volumes)
    inner = [place for place in ties if 0 < place < len(rates) - 1]
    return rates[(inner or ties)[0]]


def _ties(volumes: Sequence[float]) -> list[int]:
    """The places of the highest mean."""
    top = max(volumes)
    return [place for place, volume in enumerate(volumes) if volume >= top - TIE]


def _edge(rates: Sequence[float], *, low: bool, high: bool, nothing: bool = False) -> GridEdge:
    steps = np.array(rates[1:]) / np.array(rates[:-1]) if len(rates) > 1 else np.array([_STEP])
    beyond = [rates[0] / steps[0]] * low + [rates[-1] * steps[-1]] * high
    return GridEdge(tuple(rates), tuple(map(float, beyond)), nothing)
