"""Multi-objective asynchronous successive halving: which trials go on at which rung. The decision alone, without Ray.

MO-ASHA (Schmucker et al. 2021, arXiv:2106.12639): rungs are at ``grace * reduction**k`` epochs. A trial that reaches
one is compared at once with those that reached it before, and goes on unless more than ``1/reduction`` of them, itself
counted, are better: one more than the paper's share, so that halving ends nobody for a single good predecessor. In the
mode ``pause`` one that does not go on waits there until later arrivals are worse.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


Decision = Literal["continue", "stop", "pause"]
Mode = Literal["stop", "pause"]
MODES: tuple[Mode, ...] = ("stop", "pause")

_SMALL = 1 / 400
"""The share of a range below which a logarithmic axis becomes a linear one."""


class Axis(NamedTuple):
    """An objective by its best and its worst value; the first may be the larger one. ``log``: in the logarithm."""

    best: float
    worst: float
    log: bool = False

    def cost(self, value: float | None) -> float:
        """0 at the best value, 1 at the worst, more beyond; NaN for None."""
        if value is None:
            return math.nan
        share = (value - self.best) / (self.worst - self.best)
        return math.log1p(max(share, 0.0) / _SMALL) / math.log1p(1 / _SMALL) if self.log else share


def rungs(*, epochs: int, grace: int, reduction: int) -> tuple[int, ...]:
    """The epochs at which trials of ``epochs`` epochs are compared: ``grace * reduction**k`` below ``epochs``."""
    found = []
    while grace < epochs:
        found.append(grace)
        grace *= reduction
    return tuple(found)


class SuccessiveHalving:
    """Hears of every epoch of every trial and says at the rungs who goes on.

    Args:
        axes: the objectives, in the order of the values; plain pairs of best and worst value do as well.
        epochs, grace, reduction: where the rungs are, see :func:`rungs`.
        mode: whether a trial that does not go on ends, or waits.
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

    def judge(self, trial_id: str, epoch: float, values: Sequence[float | None]) -> Decision:
        """Take note of a trial's objectives after an epoch, and say what becomes of it.

        The same epoch told twice, by a restarted worker, changes nothing and has the same answer.
        """
        curve = self._curves.setdefault(trial_id, {})
        if epoch not in curve:
            costs = (axis.cost(value) for axis, value in zip(self._axes, values, strict=True))
            curve[float(epoch)] = tuple(costs)
        for rung in self.rungs:
            if rung < epoch and trial_id in self._arrived[rung]:
                self._passed[rung].add(trial_id)  # it waited when this was last written down, and has gone on since
        if epoch not in self._arrived:
            return "continue"
        rung = int(epoch)
        if trial_id not in self._arrived[rung]:
            self._arrived[rung][trial_id] = self._so_far(curve, rung)
            if trial_id in self._best(rung):
                self._passed[rung].add(trial_id)
        return "continue" if trial_id in self._passed[rung] else self._mode

    def ended_at(self, trial_id: str) -> int | None:
        """The rung at which the trial was ended or waits; None for one that goes on."""
        for rung in reversed(self.rungs):
            if trial_id in self._arrived[rung]:
                return None if trial_id in self._passed[rung] else rung
        return None

    def next_promotion(self, among: Sequence[str] | None = None) -> str | None:
        """A waiting trial with few enough better ones by now, from the highest rung down; it goes on from here.

        ``among``: only these are asked for.
        """
        if self._mode == "stop":
            return None
        for rung in reversed(self.rungs):
            for trial_id in self._best(rung):
                if self.ended_at(trial_id) == rung and (among is None or trial_id in among):
                    self._passed[rung].add(trial_id)
                    return trial_id
        return None

    @staticmethod
    def _so_far(curve: Mapping[float, tuple[float, ...]], rung: int) -> Points:
        """What the trial is judged by: its different finite points up to the rung; none where it is not finite there.

        All of them, not the last alone: the loss on the retain set often rises for some epochs and then recovers.
        """
        if not all(map(math.isfinite, curve[rung])):
            return ()
        up_to = {costs for epoch, costs in curve.items() if epoch <= rung and all(map(math.isfinite, costs))}
        return tuple(sorted(up_to))

    def _best(self, rung: int) -> list[str]:
        """The trials that go on from the rung, best first: those behind no more than ``1/reduction`` of its trials."""
        arrived = self._arrived[rung]
        most = len(arrived) // self._reduction
        placed = zip(places(list(arrived.values())), arrived, strict=True)
        return [trial_id for place, trial_id in sorted(placed) if place <= most and arrived[trial_id]]


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
