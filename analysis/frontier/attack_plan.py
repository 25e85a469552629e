"""Choose the stored models of a sweep that are attacked."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.choice import choose_model
from analysis.frontier.criterion import criterion_of
from analysis.frontier.frontier import frontier
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import costs_of, measured, values_of
from analysis.tables.trial_table import TrialTable


def models_to_attack(table: TrialTable, sweep: SweepFile, *, limit: int, epsilon: float) -> pd.DataFrame:
    """Return the rows of at most ``limit`` stored models: the recommended model, its runners-up, and others.

    The others are the models on or near the frontier (:func:`models_near_frontier`). Models without a checkpoint are
    left out. The results of attacks do not change which models are attacked, so that attacks come to an end.
    """
    rows: list[pd.Series] = []
    with contextlib.suppress(AnalysisError):  # without a recommendation, the others remain
        choice = choose_model(table, sweep, criterion=criterion_of(sweep, table).of_runs)
        if choice.index is not None:
            rows += [choice.rows.iloc[index] for index in (choice.index, *choice.runners_up)]
    near = models_near_frontier(table, sweep, epsilon=epsilon)
    rows += [row for _, row in near.iterrows()]
    row_by_model = {(row["trial_id"], row["step"]): row for row in rows if row["checkpoint"]}
    chosen = list(row_by_model.values())[:limit]
    return pd.DataFrame(chosen).reset_index(drop=True) if chosen else near[:0]


def models_near_frontier(table: TrialTable, sweep: SweepFile, *, epsilon: float) -> pd.DataFrame:
    """Return the rows of the models at most ``epsilon`` from the frontier in every objective.

    The distance is measured in costs, from 0 to 1. The models are sorted by their distance from the ideal corner, where
    all costs are 0.
    """
    rows = table.models.finished
    if rows.empty or not sweep.objectives:
        return rows[:0]
    rows = rows[measured(values_of(rows, sweep.objectives))]
    if rows.empty:
        return rows
    costs = costs_of(values_of(rows, sweep.objectives), sweep.objectives)
    front_costs = frontier(table.models, sweep.objectives).costs
    behind = (costs[:, None, :] - front_costs[None, :, :]).max(axis=2).min(axis=1)
    near = np.flatnonzero(behind <= epsilon)
    return rows.iloc[near[np.argsort(np.linalg.norm(costs[near], axis=1), kind="stable")]]
