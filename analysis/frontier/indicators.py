"""Compute indicators of sets of costs, and additional reference boxes. Costs are in [0, 1], and smaller is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import moocore
import numpy as np
import numpy.typing as npt

from analysis.frontier.frontier import checked_costs, hypervolume, nondominated
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Objective

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
    """Return additional reference boxes for reports, keyed by name.

    - :data:`LOG_RETAIN` has a log scale for the retain loss. On the linear scale, a retain loss at which half of the
      utility is lost has a cost of only 0.1.
    - A box such as ``verbmem and utility`` has a metric of the forget set and the primary metric of the retain set.
    """
    found: dict[str, tuple[Objective, ...]] = {}
    logged = tuple(
        replace(item, low=LOG_FLOOR * item.high, log=True)
        if columns.is_loss(item.column) and item.direction == "min" and item.low == 0
        else item
        for item in objectives
    )
    if logged != tuple(objectives):
        found[LOG_RETAIN] = logged
    scores = _scores(columns, measured)
    if scores and {item.column for item in scores} != {item.column for item in objectives}:
        found[" and ".join(item.name.replace("_", " ") for item in scores)] = scores
    return found


def _scores(columns: Columns, measured: Sequence[str]) -> tuple[Objective, ...]:
    kept = [name for name in columns.primaries(measured) if columns[name].of == "retain"]
    lost = [name for name in columns.primaries(measured) if columns[name].of == "forget"]
    # Without a primary metric of the forget set, another metric of the forget set is used.
    lost += [
        name
        for name in columns.metrics
        if columns[name].of == "forget" and name in measured and not columns[name].fluency
    ]
    of_forget = next((item for name in lost if (item := columns.objective(name))), None)
    of_retain = next((item for name in kept if (item := columns.objective(name))), None)
    return (of_forget, of_retain) if of_forget and of_retain else ()


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
    """Return the indicators of every set, keyed by name."""
    target = pooled_front(list(sets.values()))
    found = {}
    for name, costs in sets.items():
        there = len(checked_costs(costs)) > 0
        distances = (igd_plus(costs, target), additive_epsilon(costs, target)) if there else (None, None)
        found[name] = Indicators(hypervolume(costs), *distances)
    return found
