"""Compute indicators and attainment surfaces of sets of costs.

Costs are in [0, 1], and smaller is better. For attainment, a run is the set of costs of one seed, shape (n, 2). A run
attains all costs that one of its points weakly dominates. A run without points attains nothing.

Sources: Grunert da Fonseca, Fonseca and Hall (2001) for attainment surfaces; López-Ibáñez, Paquete and Stützle (2010)
for the comparison of two groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import moocore
import numpy as np
import numpy.typing as npt

from analysis.frontier.frontier import checked_costs, hypervolume, nondominated
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats, Objective

REFERENCES = (1.0, 0.9, 0.75, 0.5)
"""The values x of the reference points (x, ..., x). The worst corner has x = 1."""
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


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceSensitivity:
    """The hypervolumes of k sets for r reference points.

    Attributes:
        hypervolumes: the shares of the boxes below the reference points, shape (k, r).
        stable: whether every reference point gives the same order of the sets, including ties.
    """

    names: tuple[str, ...]
    references: tuple[float, ...]
    hypervolumes: Floats
    stable: bool


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


def reference_sensitivity(
    sets: Mapping[str, npt.ArrayLike], *, references: Sequence[float] = REFERENCES
) -> ReferenceSensitivity:
    """Compute the share of the box [0, x]^m that each set dominates, for each x in ``references``."""
    table = np.zeros((len(sets), len(references)))
    for row, costs in enumerate(sets.values()):
        array = checked_costs(costs)
        for column, place in enumerate(references):
            # Points beyond the reference point are clipped to the boundary of the box and add no volume.
            table[row, column] = hypervolume(np.minimum(array / place, 1.0))
    orders = [np.sign(np.subtract.outer(column, column).round(12)) for column in table.T]
    stable = all(np.array_equal(order, orders[0]) for order in orders)
    return ReferenceSensitivity(tuple(sets), tuple(references), table, stable)


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentSurface:
    """The region that at least ``runs`` of ``of`` runs attain. The corners are ``points``, shape (k, 2)."""

    runs: int
    of: int
    points: Floats


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentDifference:
    """The regions that one group of runs attains more often or less often than another group.

    Attributes:
        boxes: the corners (x low, y low, x high, y high) of disjoint boxes in cost space, shape (k, 4).
        differences: the first group's share of attaining runs in each box, minus the second group's share; shape (k,).
    """

    boxes: Floats
    differences: Floats


def attainment_surfaces(runs: Sequence[npt.ArrayLike]) -> tuple[AttainmentSurface, ...]:
    """For each k from 1 to the number of runs, return the region that at least k runs attain."""
    sets = _runs(runs)
    found = [np.empty((0, 2))] * len(sets)
    points, labels = _labelled(sets)
    filled = len(np.unique(labels))
    if filled:
        attained = np.asarray(moocore.eaf(points, sets=labels), dtype=np.float64)
        # moocore returns percentages of the runs that have points.
        levels = np.rint(attained[:, 2] * filled / 100).astype(int)
        for level in np.unique(levels):
            surface = attained[levels == level, :2]
            found[level - 1] = surface[np.argsort(surface[:, 0], kind="stable")]
    return tuple(AttainmentSurface(index + 1, len(sets), surface) for index, surface in enumerate(found))


def attainment_difference(first: Sequence[npt.ArrayLike], second: Sequence[npt.ArrayLike]) -> AttainmentDifference:
    """Compare how often two groups of runs attain each region of the cost space."""
    groups = _runs(first), _runs(second)
    points, _ = _labelled([*groups[0], *groups[1]])
    if len(points) == 0:
        return AttainmentDifference(np.empty((0, 4)), np.empty(0))
    # All positions in a cell between neighbouring coordinates of the points are attained by the same runs.
    x, y = (np.unique(np.append(points[:, axis], 1.0)) for axis in (0, 1))
    corners = np.stack(np.meshgrid(x[:-1], y[:-1], indexing="ij"), axis=-1).reshape(-1, 2)
    shares = [np.mean([_attains(run, corners) for run in group], axis=0) for group in groups]
    grid = (shares[0] - shares[1]).reshape(len(x) - 1, len(y) - 1)
    boxes, differences = [], []
    for (left, right), column in zip(itertools.pairwise(x), grid, strict=True):
        # Consecutive cells with the same difference are merged into one box.
        edges = np.flatnonzero(np.diff(column, prepend=np.nan, append=np.nan) != 0)
        for low, high in itertools.pairwise(edges):
            if column[low]:
                boxes.append((left, y[low], right, y[high]))
                differences.append(column[low])
    return AttainmentDifference(np.asarray(boxes, dtype=np.float64).reshape(-1, 4), np.asarray(differences))


def _attains(run: Floats, places: Floats) -> npt.NDArray[np.bool_]:
    if len(run) == 0:
        return np.zeros(len(places), dtype=bool)
    return np.asarray((run[:, None, :] <= places[None, :, :]).all(axis=2).any(axis=0), dtype=bool)


def _runs(runs: Sequence[npt.ArrayLike]) -> list[Floats]:
    return [checked_costs(np.empty((0, 2)) if np.size(run) == 0 else run) for run in runs]


def _labelled(sets: Sequence[Floats]) -> tuple[Floats, npt.NDArray[np.intp]]:
    labels = np.repeat(np.arange(1, len(sets) + 1), [len(array) for array in sets])
    return np.concatenate(sets), labels
