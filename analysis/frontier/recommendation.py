"""Which trial of a frontier to take, when nobody says how much retaining is worth how much forgetting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import Frontier


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Two places on a frontier, as positions among its members.

    Attributes:
        nearest: the knee: smallest Euclidean distance of the costs from the ideal corner (0, ..., 0).
        distance: that distance; at most sqrt(m), that of the worst corner.
        largest: the member whose loss would shrink the hypervolume most.
    """

    nearest: int
    distance: float
    largest: int


def recommend(front: Frontier) -> Recommendation | None:
    """The knee and the largest contribution; of equals the first member. None for an empty frontier.

    The knee is the answer to give: a contribution depends on the neighbours, and is tiny where many good trials crowd.
    """
    if len(front.members) == 0:
        return None
    distances = np.linalg.norm(front.costs, axis=1)
    nearest = int(np.argmin(distances))
    return Recommendation(nearest, float(distances[nearest]), int(np.argmax(front.contributions)))
