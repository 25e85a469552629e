"""Multi-objective asynchronous successive halving (MO-ASHA). Does not use Ray.

MO-ASHA (Schmucker et al. 2021, arXiv:2106.12639) has rungs at ``grace * reduction**k`` epochs (k = 0, 1, ...). At a
rung, a trial is compared with the trials that have reached the rung. With n trials at the rung, a trial continues if at
most ``n // reduction`` trials are better. In the paper, the limit is lower by one, so the second trial at a rung stops
if the first is better. In the mode ``pause``, a trial waits at the rung until enough later trials are worse.

Trials are ranked by non-dominated layers, with ties broken by hypervolume. The rank of a trial depends on all its
epochs up to the rung. Each epoch is a point with one cost per objective.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from sweeper.settings.search import rungs

Decision = Literal["continue", "stop", "pause"]
Mode = Literal["stop", "pause"]
Points = tuple[tuple[float, ...], ...]
"""The epochs of a trial, as points with one cost per objective."""

_LINEAR_BELOW = 1 / 400
"""Below this fraction of the way from the best to the worst value, a logarithmic axis is nearly linear."""


class Axis(NamedTuple):
    """The best and the worst value of an objective. A maximised objective has best > worst.

    ``log`` makes costs logarithmic.
    """

    best: float
    worst: float
    log: bool = False

    def cost(self, value: float | None) -> float:
        """Return the cost: 0 at the best value, 1 at the worst value, above 1 beyond it, and NaN for None."""
        if value is None:
            return math.nan
        share = (value - self.best) / (self.worst - self.best)
        if self.log:
            return math.log1p(max(share, 0.0) / _LINEAR_BELOW) / math.log1p(1 / _LINEAR_BELOW)
        return share


class SuccessiveHalving:
    """Decides at the rungs which trials continue.

    Args:
        axes: the objectives in the order of the values for :meth:`decide`, as :class:`Axis` or pairs (best, worst).
        epochs, grace, reduction: define the rungs as in :func:`sweeper.settings.search.rungs`.
        mode: whether a trial that may not continue stops or pauses.
    """

    def __init__(
        self,
        axes: Sequence[Axis | tuple[float, float]],
        *,
        epochs: int,
        grace: int,
        reduction: int,
        mode: Mode = "stop",
    ) -> None:
        self.rungs = rungs(epochs=epochs, grace=grace, reduction=reduction)
        self._axes = tuple(Axis(*axis) for axis in axes)
        self._reduction = reduction
        self._mode = mode
        self._curves: dict[str, dict[float, tuple[float, ...]]] = {}
        self._arrived: dict[int, dict[str, Points]] = {rung: {} for rung in self.rungs}
        self._passed: dict[int, set[str]] = {rung: set() for rung in self.rungs}

    def decide(self, trial_id: str, epoch: float, values: Sequence[float | None]) -> Decision:
        """Record an epoch, and decide whether the trial continues. Repeating an epoch changes nothing."""
        curve = self._curves.setdefault(trial_id, {})
        if epoch not in curve:
            curve[float(epoch)] = tuple(axis.cost(value) for axis, value in zip(self._axes, values, strict=True))
        for rung in self.rungs:
            if rung < epoch and trial_id in self._arrived[rung]:
                self._passed[rung].add(trial_id)  # the trial paused at this rung before a resume, then continued
        if epoch not in self._arrived:
            return "continue"
        rung = int(epoch)
        if trial_id not in self._arrived[rung]:
            self._arrived[rung][trial_id] = _points_up_to(rung, curve)
            if trial_id in self._best(rung):
                self._passed[rung].add(trial_id)
        return "continue" if trial_id in self._passed[rung] else self._mode

    def ended_at(self, trial_id: str) -> int | None:
        """Return the rung at which the trial stopped or paused, or None if it continues."""
        for rung in reversed(self.rungs):
            if trial_id in self._arrived[rung]:
                return None if trial_id in self._passed[rung] else rung
        return None

    def next_promotion(self, among: Sequence[str]) -> str | None:
        """Promote and return a trial from ``among`` that now ranks high enough, or None. Higher rungs come first."""
        if self._mode == "stop":
            return None
        for rung in reversed(self.rungs):
            for trial_id in self._best(rung):
                if trial_id in among and self.ended_at(trial_id) == rung:
                    self._passed[rung].add(trial_id)
                    return trial_id
        return None

    def _best(self, rung: int) -> list[str]:
        """Return the trials that may pass a rung, best first."""
        arrived = self._arrived[rung]
        limit = len(arrived) // self._reduction
        ranked = sorted(zip(ranks(list(arrived.values())), arrived, strict=True))
        return [trial_id for rank, trial_id in ranked if rank <= limit and arrived[trial_id]]


def _points_up_to(rung: int, curve: Mapping[float, tuple[float, ...]]) -> Points:
    """Return the distinct finite points up to the rung, or () if the point at the rung is not finite."""
    if not all(map(math.isfinite, curve[rung])):
        return ()
    # All epochs count, because the retain loss often rises for some epochs and then recovers.
    return tuple(sorted({costs for epoch, costs in curve.items() if epoch <= rung and all(map(math.isfinite, costs))}))


def ranks(sets: Sequence[Points]) -> list[int]:
    """Return for each set of points the number of better sets. Equal sets get equal ranks.

    All points are sorted into non-dominated layers. A set belongs to the layer of its best point. Within a layer, the
    next set is the set that adds the most hypervolume to the sets already ranked. The reference point is (1, ..., 1).
    An empty set is last.
    """
    import moocore
    import numpy as np

    order = sorted({points for points in sets if points})
    if not order:
        return [0] * len(sets)
    layer_of_points = moocore.pareto_rank(np.concatenate([np.asarray(points) for points in order]))
    ends = np.cumsum([len(points) for points in order])
    layers = [int(part.min()) for part in np.split(layer_of_points, ends[:-1])]
    copies = Counter(sets)
    rank: dict[Points, int] = {}
    before = 0
    for layer in sorted(set(layers)):
        # A set's gain can only shrink as other sets are ranked, so only the set with the largest known gain is updated.
        queue = [(-math.inf, points) for points, own_layer in zip(order, layers, strict=True) if own_layer == layer]
        reached, volume = np.empty((0, len(order[0][0]))), 0.0
        while queue:
            _, points = heapq.heappop(queue)
            union = np.vstack([reached, np.asarray(points)])
            loss = volume - float(moocore.hypervolume(np.minimum(union, 1.0), ref=np.ones(union.shape[1])))
            if queue and queue[0] < (loss, points):
                heapq.heappush(queue, (loss, points))
                continue
            rank[points], reached, volume = before, union, volume - loss
            before += copies[points]
    return [rank.get(points, before) for points in sets]
