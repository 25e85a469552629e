"""Which trials speak for a method in a figure, and how figures name their arms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.frontier.frontier import Frontier, frontier
from analysis.frontier.trade_off import Objective, costs_of, measured, values_of
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import learning_rate_in_words, number

METRICS = ("forget_loss", "retain_loss", "verbmem", "utility")
LABELS = {
    "forget_loss": "forget loss (nats per token)",
    "retain_loss": "retain loss (nats per token)",
    "verbmem": "verbmem (ROUGE-L recall)",
    "utility": "utility (ROUGE-L recall)",
    "lr": "learning rate",
    "c_t": "c_t, weight of the retain gradient",
    "grad_norm_retain": "norm of the retain gradient",
    "grad_norm_forget": "norm of the forget gradient",
    "grad_cosine": "cosine of the two gradients",
}
"""What an axis says, by column."""


def label_of(column: str) -> str:
    """What an axis says of a column; its own name in words for one that nobody described."""
    return LABELS.get(column, column.replace("_", " "))


def auto_lr_on(trials: pd.DataFrame) -> pd.Series:
    """Which trials set their learning rate themselves; shape (trials,), none where the column is missing."""
    if "auto_lr" not in trials.columns:
        return pd.Series(False, index=trials.index, dtype=bool)
    return trials["auto_lr"].map(lambda policy: str(policy) not in ("off", "", "nan", "False", "None")).astype(bool)


def swept(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials of sweeps and runs, without the rows of tables from elsewhere."""
    if "elsewhere" not in trials.columns:
        return trials
    return trials[~trials["elsewhere"].astype(bool)]


def own_frontier(table: TrialTable, objectives: Sequence[Objective]) -> Frontier:
    """The frontier of the trials of sweeps and runs alone: of what is here, only they can be taken.

    Raises:
        AnalysisError: the table lacks a column of the objectives.
    """
    return frontier(TrialTable(swept(table.trials), table.history, table.spec_columns), objectives)


def numbers(rows: pd.DataFrame, column: str) -> pd.Series:
    """A column as floats; all NaN where it is missing or holds text."""
    if column not in rows.columns or not pd.api.types.is_numeric_dtype(rows[column]):
        return pd.Series(np.nan, index=rows.index, dtype=np.float64)
    return rows[column].astype(np.float64)


def selected(table: TrialTable, sweep: SweepFile, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """Per group the finished trial of a sweep nearest to the ideal corner of the objectives; of equals the first.

    A group whose finished trials all lack an objective, and a sweep without objectives, has none.
    """
    finished = swept(table.finished)
    if finished.empty or not sweep.objectives:
        return finished[:0]
    values = values_of(finished, sweep.objectives)
    known = measured(values)
    rows = finished.loc[known]
    distance = np.linalg.norm(costs_of(values[known], sweep.objectives), axis=1)
    order = rows.assign(_distance=distance).sort_values("_distance", kind="stable")
    best = order.drop_duplicates(list(by)).drop(columns="_distance")
    return best.sort_values(list(by), kind="stable")


def shown_trials(table: TrialTable, sweep: SweepFile) -> pd.DataFrame:
    """The selected trial of each method that has a history; while none has finished, the first that reports."""
    reporting = set(table.history["trial_id"])
    best = selected(table, sweep)
    best = best[best["trial_id"].isin(reporting)]
    if not best.empty:
        return best
    begun = table.trials[table.trials["trial_id"].isin(reporting)]
    return begun.drop_duplicates("method").sort_values("method", kind="stable")


def trial_name(row: pd.Series) -> str:
    """``gdiff c 0.5, lr 1e-4 (00003)``: one trial in a legend."""
    c = row.get("c")
    setting = f" c {number(float(c))}" if isinstance(c, float) and np.isfinite(c) else ""
    return f"{row['method']}{setting}, {learning_rate_in_words(row)} ({row['trial_id']})"
