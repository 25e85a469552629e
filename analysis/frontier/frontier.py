"""The attained frontier of a table of trials, and how much of the objective space it dominates.

Convention: costs in [0, 1], smaller is better, reference = the worst corner (1, ..., 1); so a hypervolume is a share of
the whole box, in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import moocore
import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import AnalysisError
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Mask, Objective, costs_of, measured, values_of
from analysis.tables.trial_table import TrialTable


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The non-dominated models, best in the first objective first.

    Attributes:
        objectives: the m axes.
        members: their k rows of the table. Models with equal objectives all stay: each has a checkpoint.
        values: (k, m), as measured.
        costs: (k, m), in [0, 1].
        contributions: (k,), the hypervolume that would be lost without the member (and without its equals).
        hypervolume: the share of the box between best and worst bounds that the trials dominate, in [0, 1].
        unscored: ids of trials without a model that has a finite value of every objective.
    """

    objectives: tuple[Objective, ...]
    members: pd.DataFrame
    values: Floats
    costs: Floats
    contributions: Floats
    hypervolume: float
    unscored: tuple[str, ...]

    @property
    def trial_ids(self) -> tuple[str, ...]:
        """The trial of each member; a trial may have several epochs on the frontier."""
        return tuple(self.members["trial_id"])


def frontier(table: TrialTable, objectives: Sequence[Objective]) -> Frontier:
    """Return the frontier of a table's finished trials; in ``table.models`` each evaluated epoch is one.

    Dominance compares the values as measured; the hypervolume clips them to the bounds. Without objectives (the sweep
    is still making its target) the frontier is empty.

    Raises:
        AnalysisError: the table lacks a column of the objectives.
    """
    finished = table.finished
    if not objectives:
        nothing = np.empty((0, 0))
        return Frontier((), finished[:0], nothing, nothing, np.zeros(0), 0.0, tuple(finished["trial_id"]))
    values = values_of(finished, objectives)
    scored = measured(values)
    unscored = tuple(
        dict.fromkeys(finished.loc[~finished["trial_id"].isin(finished.loc[scored, "trial_id"]), "trial_id"])
    )
    oriented = np.column_stack([item.oriented(column) for item, column in zip(objectives, values.T, strict=True)])
    best = np.flatnonzero(scored)[nondominated(oriented[scored])]
    # Ties go by id, so that the order does not depend on which trial finished first.
    keys = [
        *(finished[name].to_numpy()[best] for name in ("step", "trial_id") if name in finished),
        *oriented[best].T[::-1],
    ]
    best = best[np.lexsort(keys)] if len(best) else best
    costs = costs_of(values[best], objectives)
    return Frontier(
        tuple(objectives), finished.iloc[best], values[best], costs, contributions(costs), hypervolume(costs), unscored
    )


def takeable(table: TrialTable, objectives: Sequence[Objective]) -> TrialTable:
    """Return the models that may be taken: the ends of finished trials, and the other epochs on the frontier.

    Only these have a checkpoint and metrics beside the losses.
    """
    models = table.models
    if not table.every_epoch:
        return models
    front = frontier(models, objectives).members.index
    ends = set(zip(*(table.finished[name] for name in ("sweep", "trial_id", "steps")), strict=True))
    is_end = [key in ends for key in zip(*(models.trials[name] for name in ("sweep", "trial_id", "step")), strict=True)]
    return table.of(models.trials[models.trials.index.isin(front) | np.asarray(is_end, dtype=bool)])


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Two members of a frontier, by position: the knee, ``nearest`` to the ideal corner (0, ..., 0) at a Euclidean
    ``distance`` of at most sqrt(m), and the one with the ``largest`` contribution to the hypervolume.
    """

    nearest: int
    distance: float
    largest: int


def recommend(front: Frontier) -> Recommendation | None:
    """Return the knee and the largest contribution, the first member if several are equal; None without members.

    The knee is the better answer, because contributions are tiny where many good trials crowd.
    """
    if len(front.members) == 0:
        return None
    distances = np.linalg.norm(front.costs, axis=1)
    nearest = int(np.argmin(distances))
    return Recommendation(nearest, float(distances[nearest]), int(np.argmax(front.contributions)))


LEAST_GAIN = 0.01
"""Share of the box by which a model must be ahead of the target in some objective to be worth taking."""


def gained(rows: pd.DataFrame, sweep: SweepFile) -> Mask:
    """Which models of a table have begun to unlearn, shape (rows,): those ahead of the target in some objective.

    A model whose target was not measured counts as ahead. If no model is ahead, all are returned as True.
    """
    columns = [item.column for item in sweep.objectives]
    starts = [sweep.baseline_of(row) for _, row in rows.iterrows()]
    before = np.array([[start.get(name, np.nan) for name in columns] for start in starts]).reshape(-1, len(columns))
    gain = costs_of(before, sweep.objectives) - costs_of(values_of(rows, sweep.objectives), sweep.objectives)
    ahead = np.isnan(before).any(axis=1) | (gain > LEAST_GAIN).any(axis=1)
    return ahead if ahead.any() else np.ones(len(rows), dtype=bool)


def nondominated(points: npt.ArrayLike) -> Mask:
    """Which of ``points``, shape (n, m), smaller is better, no other point dominates; equal points all stay.

    Raises:
        AnalysisError: a value is NaN or infinite.
    """
    array = _checked(points)
    if len(array) == 0:
        return np.zeros(0, dtype=bool)
    return np.asarray(moocore.is_nondominated(array, keep_weakly=True), dtype=bool)


def hypervolume(costs: npt.ArrayLike) -> float:
    """Return the volume that ``costs``, shape (n, m) in [0, 1], dominate below the reference (1, ..., 1).

    Raises:
        AnalysisError: a cost is NaN or outside [0, 1].
    """
    array = checked_costs(costs)
    if len(array) == 0:
        return 0.0
    return float(np.clip(moocore.hypervolume(array, ref=np.ones(array.shape[1])), 0.0, 1.0))


def contributions(costs: npt.ArrayLike) -> Floats:
    """Return what each of ``costs``, shape (n, m), mutually non-dominated, adds to the hypervolume; shape (n,).

    Equal points share one contribution: what would be lost without all of them.
    """
    array = checked_costs(costs)
    if len(array) == 0:
        return np.zeros(0)
    places, place_of = np.unique(array, axis=0, return_inverse=True)
    added = np.asarray(moocore.hv_contributions(places, ref=np.ones(array.shape[1])), dtype=np.float64)
    return np.clip(added, 0.0, 1.0)[place_of.reshape(-1)]


def _checked(points: npt.ArrayLike) -> Floats:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] < 1:
        raise AnalysisError(f"points must have the shape (points, objectives), got {array.shape}")
    if not np.isfinite(array).all():
        raise AnalysisError("a point with a missing or infinite objective cannot be ranked: leave it out first")
    return array


def checked_costs(costs: npt.ArrayLike) -> Floats:
    """Return ``costs``, shape (n, m), as an array.

    Raises:
        AnalysisError: a cost is NaN or infinite, which moocore would ignore silently, or outside [0, 1].
    """
    array = _checked(costs)
    if len(array) and (array.min() < 0.0 or array.max() > 1.0):
        raise AnalysisError(f"costs must lie in [0, 1], got {array.min():g} to {array.max():g}")
    return array
