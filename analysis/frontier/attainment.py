"""Compute the empirical attainment surfaces of a group of runs, and compare the attainment of two groups.

A run is the set of costs of one seed, shape (n, 2), in [0, 1], where smaller is better. A run attains every position
that one of its points weakly dominates. If every trial of a run diverged, the run has no points and attains nothing.
Sources: Grunert da Fonseca, Fonseca and Hall (2001) for attainment surfaces; López-Ibáñez, Paquete and Stützle (2010)
for the comparison of two groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import moocore
import numpy as np
import numpy.typing as npt

from analysis.frontier.frontier import checked_costs
from analysis.tables.trade_off import Floats


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentSurface:
    """The corners, shape (k, 2), of the region that at least ``runs`` runs attain, out of all ``of`` runs."""

    runs: int
    of: int
    points: Floats


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentDifference:
    """The regions that one group of runs attains more often than another group.

    Attributes:
        boxes: the corners (x low, y low, x high, y high) of disjoint boxes in cost space, shape (k, 4).
            Outside the boxes, both groups have the same share.
        differences: for each box, the share of runs of the first group that attain the box, minus the share of runs of
            the second group that do; shape (k,).
    """

    boxes: Floats
    differences: Floats


def attainment_surfaces(runs: Sequence[npt.ArrayLike]) -> tuple[AttainmentSurface, ...]:
    """Return n surfaces. The k-th surface bounds the region that at least k of the n runs attain."""
    sets = _runs(runs)
    found = [np.empty((0, 2))] * len(sets)
    points, labels = _labelled(sets)
    filled = len(np.unique(labels))
    if filled:
        attained = np.asarray(moocore.eaf(points, sets=labels), dtype=np.float64)
        # moocore counts in percent of the runs that have points.
        levels = np.rint(attained[:, 2] * filled / 100).astype(int)
        for level in np.unique(levels):
            surface = attained[levels == level, :2]
            found[level - 1] = surface[np.argsort(surface[:, 0], kind="stable")]
    return tuple(AttainmentSurface(index + 1, len(sets), surface) for index, surface in enumerate(found))


def attainment_difference(first: Sequence[npt.ArrayLike], second: Sequence[npt.ArrayLike]) -> AttainmentDifference:
    """Return the regions that the ``first`` group attains more often (above 0) or less often than ``second``."""
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
