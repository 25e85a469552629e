"""Select the trials that represent a method in a figure, and the columns that a figure shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns, short
from analysis.tables.sources import Sources
from analysis.tables.trade_off import scored
from analysis.tables.trial_table import TrialTable, numbers


def shown_metrics(table: TrialTable) -> tuple[str, ...]:
    """Return the columns that figures over steps or rates show: the losses and the measured primary metrics."""
    frames = (table.trials, table.history)
    metrics = table.columns.metrics
    measured = [name for name in metrics if any(np.isfinite(numbers(frame, name)).any() for frame in frames)]
    return (*table.columns.losses, *table.columns.primaries(measured))


def panel_title(columns: Columns, name: str) -> str:
    return short(name) if columns[name].role in ("loss", "metric") else columns.label(name)


def listed_options(table: TrialTable, max_values: int = 6) -> list[str]:
    """Return the numeric method options with two to ``max_values`` values, such as c = 0.9, 0.5 and 0.1."""
    trials = table.without_external.finished
    options = [name for name in table.spec_columns if table.columns[name].role == "method" and name != "method"]
    return [name for name in options if 2 <= numbers(trials, name).nunique() <= max_values]


def best_trials(sources: Sources, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Return, for each group of trials, the finished trial nearest to the ideal corner (all costs 0).

    Trials belong to the same group if they have equal values in the columns ``by``. The result is empty if the sweep
    has no objectives.
    """
    trials = sources.table.without_external.trials
    mask, costs = scored(trials, sources.sweep.objectives)
    ranked = trials[mask].assign(_distance=np.linalg.norm(costs[mask], axis=1)).sort_values("_distance", kind="stable")
    return ranked.drop_duplicates(list(by)).drop(columns="_distance").sort_values(list(by), kind="stable")


def shown_trials(sources: Sources, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Return those trials from :func:`best_trials` that have a history.

    If there are no such trials, return for each method its first trial that has a history.
    """
    table = sources.table
    ids_with_history = set(table.history["trial_id"])
    best = best_trials(sources, by)
    best = best[best["trial_id"].isin(ids_with_history)]
    if not best.empty:
        return best
    started = table.trials[table.trials["trial_id"].isin(ids_with_history)]
    return started.drop_duplicates("method").sort_values("method", kind="stable")
