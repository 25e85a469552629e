"""Compute how close a replayed search was to the frontier of the whole table after each number of epochs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.tables.trade_off import Floats
from replay.replay import Course
from replay.table import Yardstick

HYPERVOLUME, EPSILON = 0.98, 0.05
"""Of the whole table's front, the share of its hypervolume and the additive epsilon at which it counts as found."""


@dataclass(frozen=True, eq=False)
class Progress:
    """The progress of a replayed search, as step curves over the number of epochs spent.

    Attributes:
        share: the hypervolume as a share of the whole table's hypervolume, shape (epochs + 1,).
        epsilon: the additive epsilon relative to the whole table's front, shape (epochs + 1,); 1 while the search has
            no candidate.
    """

    share: Floats
    epsilon: Floats

    @property
    def reached(self) -> int | None:
        """Return the number of epochs after which the frontier counts as found; None if it was never found."""
        there = np.flatnonzero((self.share >= HYPERVOLUME) & (self.epsilon <= EPSILON))
        return int(there[0]) if len(there) else None


def progress(course: Course, yardstick: Yardstick, *, epochs: int) -> Progress:
    """Return the curves of one replay up to ``epochs``. After its end the curves are constant."""
    share, epsilon = np.zeros(epochs + 1), np.ones(epochs + 1)
    # The additive epsilon is the largest of what each point of the whole front still lacks.
    lacking = np.full(len(yardstick.front), 1.0)
    own, volume = np.empty((0, len(yardstick.objectives))), 0.0
    for spent, row in course.found:
        costs = yardstick.costs(row)
        if costs is None or spent > epochs:
            continue
        if not (own <= costs).all(axis=1).any():
            own = np.vstack([own[~(costs <= own).all(axis=1)], costs])
            volume = hypervolume(own)
            lacking = np.minimum(lacking, (costs - yardstick.front).max(axis=1))
        share[spent:] = volume / yardstick.volume
        epsilon[spent:] = max(0.0, lacking.max())
    return Progress(share, epsilon)
