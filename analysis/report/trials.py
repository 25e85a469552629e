"""Build the table of all trials for the report page, and the data for the charts of each trial."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.representatives import shown_metrics
from analysis.frontier.confirmation import meets
from analysis.frontier.criterion import Criterion
from analysis.frontier.pareto_json import json_value
from analysis.tables.columns import short
from analysis.tables.trial_table import TrialTable, numbers, thinned
from search_spaces.common.objective import Objective

_MAX_POINTS = 300
_MAX_REPORTS = 12_000
"""The approximate maximum number of reports on the page. It limits the size of the page."""
MAX_TRIALS = 1000
"""The maximum number of trials in the table, about. Trials with a model on the frontier are never left out."""
_HEADINGS = {"trial_id": "trial", "wall_seconds": "seconds", "on_front": "frontier"}


def listed_trials(table: TrialTable, on_front: Collection[str]) -> TrialTable:
    """Return the table of the trials that the page lists: all, or those on the frontier and evenly spread others."""
    on_it = table.trials["trial_id"].isin(on_front).to_numpy(dtype=bool)
    others = np.flatnonzero(~on_it)
    count = min(len(others), max(0, MAX_TRIALS - int(on_it.sum())))
    chosen = others[np.linspace(0, len(others) - 1, count).round().astype(int)]
    return table.with_trials(table.trials.iloc[np.sort([*np.flatnonzero(on_it), *chosen])])


def anchors(table: TrialTable) -> dict[str, str]:
    """Return the anchor of each trial's row on the page, keyed by trial id."""
    return {trial_id: f"trial-{i}" for i, trial_id in enumerate(table.trials["trial_id"])}


def trials_section(table: TrialTable, objectives: Sequence[Objective], on_front: Collection[str]) -> dict[str, Any]:
    """Return the table of all trials.

    In the result, ``headings`` has triples (column, text of the heading, whether the column is numeric). ``rows`` has a
    dictionary for each trial, which maps columns to values. ``same`` has the settings that are equal in all trials.
    """
    trials, columns = table.trials, table.columns
    # Paths and hashes are left out, because comparing them is not useful.
    settings = [name for name in table.spec_columns if columns[name].role != "placement" and not name.endswith("_key")]
    varying = [name for name in settings if name in table.varying]
    scores = [*columns.losses, *columns.metrics, "wall_seconds"]
    extra = [item.column for item in objectives if item.column not in scores]
    measured = [name for name in (*extra, *scores) if name in trials.columns and trials[name].notna().any()]
    names = list(dict.fromkeys(["trial_id", "status", "on_front", "method", *varying, *measured]))
    frame = trials.assign(on_front=["yes" if trial_id in on_front else "no" for trial_id in trials["trial_id"]])
    headings = [(name, _HEADINGS.get(name, short(name)), pd.api.types.is_numeric_dtype(frame[name])) for name in names]
    first_values = {name: json_value(trials[name].iloc[0]) for name in settings if len(trials) and name not in varying}
    return {
        "headings": headings,
        "rows": json_value(frame[names].to_dict("records")),
        "same": {name: value for name, value in first_values.items() if value is not None},
    }


def fresh_section(table: TrialTable, criterion: Criterion) -> dict[str, Any]:
    """Return the table of the fresh runs: their models, seeds, and the scores that the criterion judges.

    In the result, ``headings`` has pairs (text of the heading, whether the column is numeric), and ``rows`` the cells.
    """
    runs = table.fresh[table.fresh["confirms"].isin(set(table.trials["trial_id"]))]
    judged = dict.fromkeys(item.column for item in criterion.requirements)
    scores = [name for name in judged if name in runs and runs[name].notna().any()]
    names = ["trial_id", "confirms", "stop_epoch", "seed", "status", *scores]
    texts = ["trial", "repeats trial", "up to epoch", "seed", "status", *map(short, scores)]
    if runs.empty:
        return {"headings": [], "rows": []}
    frame = runs[names].assign(met=["yes" if is_met else "no" for is_met in meets(runs, criterion)])
    headings = [*zip(texts, (pd.api.types.is_numeric_dtype(runs[name]) for name in names), strict=True)]
    return {"headings": [*headings, ("meets the criterion", False)], "rows": json_value(frame.to_numpy().tolist())}


def charts(table: TrialTable) -> list[dict[str, Any]]:
    """Return the definitions of the charts that the page's script draws for each trial.

    In a definition, ``lines`` has a pair (column, label) for each line of the chart. If ``log`` is true, the y axis is
    logarithmic if the values span more than a factor of 8. ``losses`` is true only for the chart of the losses.
    """
    columns = table.columns
    scores = [name for name in shown_metrics(table) if not columns.is_loss(name)]
    units = {columns[name].unit for name in scores}
    nats = next((columns[name].unit for name in columns.losses), "").partition(" ")[0]
    loss_lines = [(name, columns[name].of or short(name)) for name in columns.losses]
    score_lines = [(name, short(name)) for name in scores]
    norms = (("grad_norm_forget", "forget"), ("grad_norm_retain", "retain"))
    return [
        _chart(f"Losses ({nats})", loss_lines, log=True, losses=True),
        _chart("Learning rate", [("lr", "lr")], log=True),
        _chart("Weight of the retain gradient", [("c_t", "c_t")]),
        _chart(units.pop() if len(units) == 1 else "Scores", score_lines),
        _chart("Cosine of the gradients", [("grad_cosine", "cosine")]),
        _chart("Gradient norms", norms, log=True),
    ]


def _chart(title: str, lines: Sequence[tuple[str, str]], *, log: bool = False, losses: bool = False) -> dict[str, Any]:
    return {"title": title, "lines": lines, "log": log, "losses": losses}


def page_data(table: TrialTable) -> dict[str, object]:
    """Return the settings, paths and reports of each trial for the page's script, keyed by trial id."""
    histories = dict(iter(table.history.groupby("trial_id")))
    chart_columns = ["epoch", *(name for chart in charts(table) for name, _ in chart["lines"])]
    # Each trial has at most 300 evenly spaced reports. If there are many trials, fewer reports are shown.
    max_reports = max(30, min(_MAX_POINTS, _MAX_REPORTS // max(1, len(table.trials))))

    def curves(rows: pd.DataFrame) -> dict[str, object]:
        columns = {name: numbers(rows, name) for name in chart_columns}
        measured = {name: values for name, values in columns.items() if not values.isna().all()}
        # Rounding to five digits does not change the drawn line, and halves the size of the page.
        rounded = {name: json_value([float(f"{value:.5g}") for value in values]) for name, values in measured.items()}
        return {"step": json_value(rows["step"].tolist())} | rounded

    return {
        row["trial_id"]: {
            "settings": {name: json_value(row[name]) for name in table.varying if json_value(row[name]) is not None},
            **{name: json_value(row[name]) for name in ("spec_hash", "checkpoint", "error")},
            "course": curves(thinned(histories[row["trial_id"]], max_reports)) if row["trial_id"] in histories else {},
        }
        for _, row in table.trials.iterrows()
    }
