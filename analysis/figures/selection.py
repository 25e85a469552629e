"""The trials that represent a method in a figure, and the columns that a figure shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns, short
from analysis.tables.sources import Sources
from analysis.tables.trade_off import scored
from analysis.tables.trial_table import TrialTable, numbers


def shown_metrics(table: TrialTable) -> tuple[str, ...]:
    """The columns with a panel in figures over steps and rates: the losses, and the measured primary metrics."""
    frames = (table.trials, table.history)
    metrics = table.columns.metrics
    measured = [name for name in metrics if any(np.isfinite(numbers(frame, name)).any() for frame in frames)]
    return (*table.columns.losses, *table.columns.primaries(measured))


def panel_title(columns: Columns, name: str) -> str:
    """The short name of a loss or metric, whose axis has its unit; the label of any other column."""
    return short(name) if columns[name].role in ("loss", "metric") else columns.label(name)


def selected(sources: Sources, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Per group the finished trial of a sweep nearest to the ideal corner of the objectives; ties go to the first.

    A group is left out if all its finished trials lack an objective, or if the sweep has no objectives.
    """
    trials = sources.table.own.trials
    known, costs = scored(trials, sources.sweep.objectives)
    order = trials[known].assign(_distance=np.linalg.norm(costs[known], axis=1)).sort_values("_distance", kind="stable")
    return order.drop_duplicates(list(by)).drop(columns="_distance").sort_values(list(by), kind="stable")


def shown_trials(sources: Sources) -> pd.DataFrame:
    """The selected trial of each method that has a history; while none has finished, the first that reports."""
    table = sources.table
    reporting = set(table.history["trial_id"])
    best = selected(sources)
    best = best[best["trial_id"].isin(reporting)]
    if not best.empty:
        return best
    begun = table.trials[table.trials["trial_id"].isin(reporting)]
    return begun.drop_duplicates("method").sort_values("method", kind="stable")
