"""Multi-objective asynchronous successive halving (MO-ASHA), independent of Ray.

MO-ASHA (Schmucker et al. 2021, arXiv:2106.12639) has rungs at ``grace * reduction**k`` epochs (k = 0, 1, ...). A trial
that reaches a rung is ranked among all trials that have reached the rung. If n trials have reached the rung, a trial
may continue if at most ``n // reduction`` of them are better. In the paper, at most ``n // reduction - 1`` trials may
be better, so no trial continues before ``reduction`` trials have reached the rung.

A trial that may not continue stops (mode ``stop``) or waits at the rung (mode ``pause``). A waiting trial may continue
later, when enough worse trials have reached the rung.

Each epoch is a point with one cost per objective. A trial is ranked by all its epochs up to the rung: by non-dominated
layers, and within a layer by hypervolume (:func:`ranks`).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from search_spaces.common.objective import Objective
from search_spaces.common.values import as_float
from sweeper.settings.search import rungs
from sweeper.store.state import Trial

Decision = Literal["continue", "stop", "pause"]
Mode = Literal["stop", "pause"]
Points = tuple[tuple[float, ...], ...]
"""The distinct epochs of a trial, as points with one cost per objective."""


class SuccessiveHalving:
    """Decides at the rungs which trials continue. The decisions depend only on the reports of the compared trials.

    Args:
        objectives: the objectives by which trials are compared, with their bounds and scales.
        epochs, grace, reduction: the arguments of :func:`sweeper.settings.search.rungs`.
        mode: what happens to a trial that may not continue at a rung: ``stop`` or ``pause``.
    """

    def __init__(
        self, objectives: Sequence[Objective], *, epochs: int, grace: int, reduction: int, mode: Mode = "stop"
    ) -> None:
        self.rungs = rungs(epochs=epochs, grace=grace, reduction=reduction)
        self._objectives = tuple(objectives)
        self._reduction = reduction
        self._mode = mode

    def decide(self, trial: Trial, compared: Collection[Trial]) -> Decision:
        """Return the decision after the last report of a trial. ``compared`` contains this trial."""
        may_continue = trial.last_epoch not in self.rungs or trial.id in self._best(trial.last_epoch, compared)
        return "continue" if may_continue else self._mode

    def next_promoted(self, waiting: Collection[Trial], compared: Collection[Trial]) -> Trial | None:
        """Return the best waiting trial that may continue now, or None. Trials at higher rungs come first."""
        if self._mode == "stop":
            return None
        for rung in sorted({trial.last_epoch for trial in waiting}, reverse=True):
            at_rung = {trial.id: trial for trial in waiting if trial.last_epoch == rung}
            for trial_id in self._best(rung, compared):
                if trial_id in at_rung:
                    return at_rung[trial_id]
        return None

    def _best(self, rung: float, compared: Collection[Trial]) -> list[str]:
        """Return the ids of the trials that may continue after the rung, best first."""
        curves = {trial.id: self._curve(trial) for trial in compared}
        points_by_trial = {trial_id: _points_up_to(rung, curve) for trial_id, curve in curves.items() if rung in curve}
        limit = len(points_by_trial) // self._reduction
        trial_ranks = ranks(list(points_by_trial.values()))
        ranked = sorted(zip(trial_ranks, points_by_trial, strict=True))
        return [trial_id for rank, trial_id in ranked if rank <= limit and points_by_trial[trial_id]]

    def _curve(self, trial: Trial) -> dict[float, tuple[float, ...]]:
        """Return the costs of each epoch."""
        values = {report.epoch: report.values for report in reversed(trial.reports)}  # the first report of each epoch
        return {
            epoch: tuple(float(item.unclipped_cost(as_float(losses.get(item.column)))) for item in self._objectives)
            for epoch, losses in values.items()
        }


def _points_up_to(rung: float, curve: Mapping[float, tuple[float, ...]]) -> Points:
    """Return a trial's distinct finite points up to the rung, or () if the point at the rung is not finite."""
    if not _is_finite(curve[rung]):
        return ()
    # All epochs are used, because the retain loss often rises for some epochs and then recovers.
    points = {costs for epoch, costs in curve.items() if epoch <= rung and _is_finite(costs)}
    return tuple(sorted(points))


def _is_finite(costs: Sequence[float]) -> bool:
    return all(math.isfinite(cost) for cost in costs)


def ranks(point_sets: Sequence[Points]) -> list[int]:
    """Return the rank of each trial: the number of better trials. A trial is given as the set of its points.

    All points are sorted into non-dominated layers. A trial belongs to the layer of its best point. Trials in earlier
    layers are better. Within a layer, the next rank goes to the trial that adds the most hypervolume to the points of
    the trials already ranked in this layer. The reference point is (1, ..., 1). Trials with equal points have equal
    ranks. Trials without points rank last.
    """
    import moocore
    import numpy as np

    order = sorted({points for points in point_sets if points})
    if not order:
        return [0] * len(point_sets)
    all_points = np.concatenate([np.asarray(points) for points in order])
    layer_of_point = moocore.pareto_rank(all_points)
    ends = np.cumsum([len(points) for points in order])
    layers = [int(point_layers.min()) for point_layers in np.split(layer_of_point, ends[:-1])]
    set_counts = Counter(point_sets)
    rank: dict[Points, int] = {}
    better = 0
    for layer in sorted(set(layers)):
        # A trial's gain can only shrink as other trials are ranked, so only the largest known gain is updated.
        queue = [(-math.inf, points) for points, set_layer in zip(order, layers, strict=True) if set_layer == layer]
        layer_points = np.empty((0, len(order[0][0])))
        volume = 0.0
        while queue:
            _, points = heapq.heappop(queue)
            union = np.vstack([layer_points, np.asarray(points)])
            union_volume = float(moocore.hypervolume(np.minimum(union, 1.0), ref=np.ones(union.shape[1])))
            negative_gain = volume - union_volume
            if queue and queue[0] < (negative_gain, points):  # another trial may gain more
                heapq.heappush(queue, (negative_gain, points))
                continue
            rank[points] = better
            better += set_counts[points]
            layer_points = union
            volume -= negative_gain
    return [rank.get(points, better) for points in point_sets]
