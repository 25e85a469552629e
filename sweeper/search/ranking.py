"""In which order trials deserve to go on, by all that their epochs so far have reached.

The order is that of MO-ASHA (Schmucker et al. 2021, arXiv:2106.12639): by non-dominated layers, ties broken by
hypervolume. A trial is ranked by the set of its epochs, each a point of costs: 0 at an objective's best bound, 1 at its
worst.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

Points = tuple[tuple[float, ...], ...]
"""The costs of a trial's epochs, one point of m costs each."""


def places(sets: Sequence[Points]) -> list[int]:
    """How many of the ``sets`` come before each; equal ones share a place, whatever their order here.

    A set is in the layer of its best point in the non-dominated sorting of all points, so that one with a point that
    dominates all others is first. Within a layer it is the turn of the set that adds most to the hypervolume of those
    of the layer placed before. An empty set, a trial without a finite value, comes last.
    """
    import moocore
    import numpy as np

    order = sorted({points for points in sets if points})
    if not order:
        return [0] * len(sets)
    layer_of_points = moocore.pareto_rank(np.concatenate([np.asarray(points) for points in order]))
    ends = np.cumsum([len(points) for points in order])
    layers = [int(part.min()) for part in np.split(layer_of_points, ends[:-1])]
    equals = Counter(sets)
    place: dict[Points, int] = {}
    before = 0
    for layer in sorted(set(layers)):
        # A gain only shrinks as others are placed, so that only the greatest by the last look needs a new one.
        waiting = [(-math.inf, points) for points, its_layer in zip(order, layers, strict=True) if its_layer == layer]
        reached, volume = np.empty((0, len(order[0][0]))), 0.0
        while waiting:
            _, points = heapq.heappop(waiting)
            union = np.vstack([reached, np.asarray(points)])
            known = (volume - _hypervolume(union), points)
            if waiting and waiting[0] < known:
                heapq.heappush(waiting, known)
                continue
            place[points], reached, volume = before, union, volume - known[0]
            before += equals[points]
    return [place.get(points, before) for points in sets]


def _hypervolume(costs: Floats) -> float:
    """What ``costs``, shape (n, m), dominate of the box below (1, ..., 1)."""
    import moocore
    import numpy as np

    return float(moocore.hypervolume(np.minimum(costs, 1.0), ref=np.ones(costs.shape[1])))
