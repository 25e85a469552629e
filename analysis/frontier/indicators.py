"""Compute quality indicators and attainment surfaces of sets of costs, and choose additional reference boxes.

Costs are in [0, 1], and smaller is better. The attainment functions take *runs*. A run is the set of costs on one seed,
shape (n, 2). A run *attains* a point if at least one of its costs weakly dominates the point.

Sources: Grunert da Fonseca, Fonseca and Hall (2001) for attainment surfaces; López-Ibáñez, Paquete and Stützle (2010)
for the comparison of two groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import moocore
import numpy as np
import numpy.typing as npt

from analysis.frontier.frontier import checked_costs, hypervolume
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats
from search_spaces.common.front import nondominated
from search_spaces.common.objective import Objective

LOG_FLOOR = 1e-3
"""The lower bound of a loss on a log scale, as a share of the loss's upper bound."""
LOG_RETAIN = "log retain loss"


@dataclass(frozen=True, slots=True)
class Indicators:
    """The indicators of one set of costs, relative to the Pareto front of all sets together.

    Attributes:
        hypervolume: the share of the reference box that the set dominates, in [0, 1]; larger is better.
        igd_plus: IGD+ (Ishibuchi et al. 2015); 0 is best. None for a set without points.
        epsilon: the additive epsilon indicator (Zitzler et al. 2003); 0 is best. None for a set without points.
    """

    hypervolume: float
    igd_plus: float | None
    epsilon: float | None


def further_objectives(
    objectives: Sequence[Objective], columns: Columns, measured: Sequence[str]
) -> dict[str, tuple[Objective, ...]]:
    """Return the objectives of additional reference boxes for reports, keyed by the name of the box.

    - :data:`LOG_RETAIN` has a log scale for the retain loss. On the linear scale, the cost is only 0.1 at a retain loss
      at which half of the utility is lost.
    - A box such as ``verbmem and utility`` has a metric of the forget set and the primary metric of the retain set.
    """
    boxes: dict[str, tuple[Objective, ...]] = {}
    logged = tuple(_on_log_scale(item) if columns.is_loss(item.column) else item for item in objectives)
    if logged != tuple(objectives):
        boxes[LOG_RETAIN] = logged
    scores = _scores(columns, measured)
    if scores and {item.column for item in scores} != {item.column for item in objectives}:
        boxes[" and ".join(item.name.replace("_", " ") for item in scores)] = scores
    return boxes


def _on_log_scale(loss: Objective) -> Objective:
    is_suitable = loss.direction == "min" and loss.low == 0
    return replace(loss, low=LOG_FLOOR * loss.high, scale="log") if is_suitable else loss


def _scores(columns: Columns, measured: Sequence[str]) -> tuple[Objective, ...]:
    retain_names = [name for name in columns.primaries(measured) if columns[name].of == "retain"]
    forget_names = [name for name in columns.primaries(measured) if columns[name].of == "forget"]
    # Without a primary metric of the forget set, another metric of the forget set is used.
    forget_names += [
        name
        for name in columns.metrics
        if columns[name].of == "forget" and name in measured and not columns[name].fluency
    ]
    forget_score = next((item for name in forget_names if (item := columns.objective(name))), None)
    retain_score = next((item for name in retain_names if (item := columns.objective(name))), None)
    return (forget_score, retain_score) if forget_score and retain_score else ()


def pooled_front(sets: Sequence[npt.ArrayLike]) -> Floats:
    """Return the non-dominated points of all sets together, shape (k, m), without duplicates."""
    filled = [array for array in map(checked_costs, sets) if len(array)]
    if not filled:
        return np.empty((0, 0))
    points = np.unique(np.concatenate(filled), axis=0)
    return np.asarray(points[nondominated(points)], dtype=np.float64)


def igd_plus(costs: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Return IGD+: the mean over z in ``reference`` of the minimum over a in ``costs`` of ``||max(a - z, 0)||``.

    ``reference`` has the shape (k, m), and ``costs`` has the shape (n, m).
    """
    return float(moocore.igd_plus(checked_costs(costs), ref=checked_costs(reference)))


def additive_epsilon(costs: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Return the maximum over z in ``reference`` of the minimum over a in ``costs`` of ``max(a - z)``.

    ``max(a - z)`` is the largest difference in any objective.
    """
    return float(moocore.epsilon_additive(checked_costs(costs), ref=checked_costs(reference)))


def indicators(sets: Mapping[str, npt.ArrayLike]) -> dict[str, Indicators]:
    """Return the indicators of every set of costs, keyed by the set's name."""
    reference = pooled_front(list(sets.values()))
    by_name = {}
    for name, costs in sets.items():
        has_points = len(checked_costs(costs)) > 0
        distances = (igd_plus(costs, reference), additive_epsilon(costs, reference)) if has_points else (None, None)
        by_name[name] = Indicators(hypervolume(costs), *distances)
    return by_name


def attainment_surfaces(runs: Sequence[npt.ArrayLike]) -> list[Floats]:
    """Return, for k = 1, ..., len(runs), the corners, shape (c, 2), of the region that at least k runs attain."""
    labelled = _labelled(runs, (2.0, 2.0))
    corners = np.asarray(moocore.eaf(labelled[:, :2], sets=labelled[:, 2]), dtype=np.float64)
    counts = np.where(corners[:, :2].max(axis=1) <= 1, np.rint(corners[:, 2] * len(runs) / 100), 0)
    return [corners[counts == count, :2] for count in range(1, len(runs) + 1)]


def attainment_difference(first: Sequence[npt.ArrayLike], second: Sequence[npt.ArrayLike]) -> Floats:
    """Return disjoint boxes that different shares of two groups of runs attain, shape (b, 5).

    A row has the lower corner (x, y) of a box, its upper corner (x, y), and a difference: the share of the runs in
    ``first`` that attain the box, minus the share of the runs in ``second``.
    """
    # moocore is exact only for groups of equal size, so runs are repeated. moocore fails if the groups are equal
    # everywhere, so their points outside the unit box differ.
    size = math.lcm(len(first), len(second))
    groups = [
        _labelled([*runs] * (size // len(runs)), outside)
        for runs, outside in ((first, (-1.0, 2.0)), (second, (2.0, 2.0)))
    ]
    boxes = np.asarray(moocore.eafdiff(*groups, intervals=size, rectangles=True), dtype=np.float64)
    boxes = np.column_stack([boxes[:, :4].clip(0.0, 1.0), boxes[:, 4] / size])
    inside = (boxes[:, :2] < boxes[:, 2:4]).all(axis=1)
    return np.asarray(boxes[inside & (boxes[:, 4] != 0)], dtype=np.float64)


def _labelled(runs: Sequence[npt.ArrayLike], outside: tuple[float, float]) -> Floats:
    """Return the costs of all runs and the index of each point's run, shape (n, 3).

    The point ``outside``, which is not in the unit box, is added to each run, because moocore ignores empty runs.
    """
    sets = [np.vstack([outside, checked_costs(np.reshape(run, (-1, 2)))]) for run in runs]
    return np.column_stack([np.concatenate(sets), np.repeat(np.arange(len(sets)), list(map(len, sets)))])
