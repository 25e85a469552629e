"""Compute the frontier of a table of trials, and its hypervolume.

A *model* is the state of a trial after an epoch. A *cost* is the value of an objective, scaled to [0, 1] with the
objective's bounds; smaller is better. All costs are 0 at the *ideal corner* and 1 at the reference point, so the
hypervolume is the share of the unit box that the models dominate. The functions raise a ValueError if a cost is NaN or
outside [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import moocore
import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Mask, costs_of, measured, values_of
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import format_settings, model_name
from search_spaces.common.front import front, front_or_constrained_front, oriented_of, violations_of
from search_spaces.common.objective import Objective
from search_spaces.constraint import parse_constraint


@dataclass(frozen=True, slots=True)
class Model:
    """The description of one model.

    Attributes:
        name: text such as ``trial 00007 after epoch 3``.
        settings: text such as ``gdiff, c 0.44, lr 2e-4``.
        epoch: the epoch; None if only the last epoch of each trial can be selected.
        checkpoint: the checkpoint's folder; "" if there is no checkpoint.
    """

    name: str
    settings: str
    trial_id: str
    epoch: float | None
    checkpoint: str

    @classmethod
    def of(cls, row: pd.Series, table: TrialTable) -> Model:
        """Describe the model in a row of ``table.models``."""
        with_epoch = table.every_epoch
        name, settings = model_name(row, with_epoch=with_epoch), format_settings(row, table.varying)
        epoch = finite_cell(row, "epoch") if with_epoch else None
        return cls(name, settings, str(row["trial_id"]), epoch, str(row["checkpoint"]))


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The non-dominated models, sorted by the first objective, best first.

    Attributes:
        members: the table rows of the k models on the frontier. Models with equal objectives are all members.
        values: the measured values of the m objectives, shape (k, m).
        costs: the costs in [0, 1], shape (k, m).
        contributions: the hypervolume that would be lost without each member, shape (k,).
        hypervolume: the share of the reference box that the members dominate, in [0, 1].
        unscored: the ids of the trials that have no model with finite values of all objectives.
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
        """The trial id of each member. An id is repeated if several epochs of the trial are members."""
        return tuple(self.members["trial_id"])

    @property
    def distances(self) -> Floats:
        """The distance of each member's costs from the ideal corner, shape (k,). The knee has the smallest distance."""
        # Contributions cannot define the knee, because they are tiny if many good trials are close together.
        return np.asarray(np.linalg.norm(self.costs, axis=1), dtype=np.float64)


def frontier(table: TrialTable, objectives: Sequence[Objective]) -> Frontier:
    """Return the frontier of the rows with the status ``finished``.

    To include every evaluated epoch, pass ``table.models`` as ``table``. Dominance is computed from the measured
    values, and the hypervolume from the values clipped to the bounds. Without objectives, the frontier is empty.

    Raises:
        AnalysisError: the table lacks the column of an objective.
    """
    finished = table.finished
    if not objectives:
        empty = np.empty((0, 0))
        return Frontier((), finished[:0], empty, empty, np.zeros(0), 0.0, tuple(finished["trial_id"]))
    values = values_of(finished, objectives)
    scored = measured(values)
    ids = finished["trial_id"]
    unscored = tuple(ids[~ids.isin(ids[scored])].unique())
    oriented = oriented_of(values, objectives)
    rows = np.flatnonzero(front(values, objectives))
    # Ties are sorted by id, so that the order does not depend on which trial finished first.
    tie_breakers = [finished[name].to_numpy()[rows] for name in ("step", "trial_id") if name in finished]
    sort_keys = [*tie_breakers, *reversed(oriented[rows].T)]  # the last key is compared first
    rows = rows[np.lexsort(sort_keys)] if len(rows) else rows
    costs = costs_of(values[rows], objectives)
    return Frontier(
        tuple(objectives), finished.iloc[rows], values[rows], costs, contributions(costs), hypervolume(costs), unscored
    )


def selectable_models(table: TrialTable, sweep: SweepFile) -> TrialTable:
    """Return the models that can be selected: the last epochs of finished trials, and all epochs on the frontier.

    With constraints, the epochs on the frontier of the epochs that meet all constraints can be selected, too. The other
    epochs have no checkpoint, and only their losses were measured. If ``--keep-checkpoints`` limits the checkpoints of
    the sweep, models without a checkpoint cannot be selected.
    """
    models = table.models
    if sweep.settings.get("keep_checkpoints"):
        models = models.with_trials(models.trials[models.trials["checkpoint"] != ""])
    if not table.every_epoch:
        return models
    finished, rows = table.finished, models.trials
    is_kept = is_kept_epoch(rows, sweep)
    ends = set(zip(finished["sweep"], finished["trial_id"], finished["steps"], strict=True))
    keys = zip(rows["sweep"], rows["trial_id"], rows["step"], strict=True)
    is_end = np.array([key in ends for key in keys], dtype=bool)
    return table.with_trials(rows[is_kept | is_end])


def is_kept_epoch(rows: pd.DataFrame, sweep: SweepFile) -> Mask:
    """Return a mask, shape (rows,), of the epochs on the frontier of all rows or of the rows that meet all constraints.

    Without objectives, no epoch is on a frontier.
    """
    if not sweep.objectives:
        return np.zeros(len(rows), dtype=bool)
    violations = _violations(rows, sweep)
    return front_or_constrained_front(values_of(rows, sweep.objectives), sweep.objectives, violations)


def meets_constraints(rows: pd.DataFrame, sweep: SweepFile) -> Mask:
    """Return a mask, shape (rows,), of the models that are known to meet all constraints."""
    return np.array([all(value <= 0.0 for value in values) for values in _violations(rows, sweep)], dtype=bool)


def _violations(rows: pd.DataFrame, sweep: SweepFile) -> list[tuple[float, ...]]:
    constraints = [parse_constraint(text) for text in sweep.constraints]
    return [violations_of(row.to_dict(), constraints, sweep.baseline_of(row)) for _, row in rows.iterrows()]


LEAST_GAIN = 0.01
"""A model has begun to unlearn if one of its costs is below the target's cost by more than this value."""


def has_begun_unlearning(rows: pd.DataFrame, sweep: SweepFile) -> Mask:
    """Return a mask, shape (rows,), of the models that have begun to unlearn (:data:`LEAST_GAIN`).

    Models whose target was not measured are included. If no model has begun to unlearn, all models are included.
    """
    columns = [item.column for item in sweep.objectives]
    targets = [sweep.baseline_of(row) for _, row in rows.iterrows()]
    before = np.array([[target.get(name, np.nan) for name in columns] for target in targets]).reshape(-1, len(columns))
    after = values_of(rows, sweep.objectives)
    gain = costs_of(before, sweep.objectives) - costs_of(after, sweep.objectives)
    has_begun = np.isnan(before).any(axis=1) | (gain > LEAST_GAIN).any(axis=1)
    return has_begun if has_begun.any() else np.ones(len(rows), dtype=bool)


def hypervolume(costs: npt.ArrayLike) -> float:
    """Return the hypervolume of costs, shape (n, m), with the reference point (1, ..., 1)."""
    array = checked_costs(costs)
    if len(array) == 0:
        return 0.0
    return float(np.clip(moocore.hypervolume(array, ref=np.ones(array.shape[1])), 0.0, 1.0))


def contributions(costs: npt.ArrayLike) -> Floats:
    """Return the hypervolume that would be lost without each point, shape (n,).

    The costs, shape (n, m), must be non-dominated. Equal points count as one point: each of them has the contribution
    that this point has if it occurs only once.
    """
    array = checked_costs(costs)
    if len(array) == 0:
        return np.zeros(0)
    points, point_of = np.unique(array, axis=0, return_inverse=True)
    point_values = np.asarray(moocore.hv_contributions(points, ref=np.ones(array.shape[1])), dtype=np.float64)
    return np.clip(point_values, 0.0, 1.0)[point_of.reshape(-1)]


def checked_costs(costs: npt.ArrayLike) -> Floats:
    """Return costs as an array, shape (n, m). Raise a ValueError if a cost is NaN or outside [0, 1]."""
    array = np.asarray(costs, dtype=np.float64)
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise ValueError(f"costs must lie in [0, 1] and must not be NaN: {array}")
    return array
