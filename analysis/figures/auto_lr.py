"""The figure of the learning rate over steps, with the updates of AutoLR."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from analysis.figures.panels import Line, Panel, PanelFigure, figure_of, finite_lines
from analysis.figures.representatives import shown_trials
from analysis.figures.style import INK, MUTED, scale_for
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import auto_lr_on, numbers
from analysis.words import trial_name

_MAX_TRIALS = 6
_REASONS = {
    "no descent": "not a descent direction",
    "no curvature": "parabola without minimum",
    "not finite": "loss not finite",
}
_MARKERS = ("x", "s", "^", "v", "P", "D")


def auto_lr_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of the learning rate over steps; None if no trial has AutoLR updates.

    Each panel shows one AutoLR trial of a method (:func:`shown_trials`).
    """
    table = sources.table
    trials = table.trials[auto_lr_on(table.trials) & table.trials["trial_id"].isin(set(table.updates["trial_id"]))]
    selected_rows = shown_trials(replace(sources, table=table.with_trials(trials))).head(_MAX_TRIALS)
    return figure_of(
        (
            _panel(table.updates[table.updates["trial_id"] == row["trial_id"]], table.history_of(row["trial_id"]), row)
            for _, row in selected_rows.iterrows()
        ),
        name="auto_lr_log",
        title="Learning rate at each AutoLR update",
        caption=note("auto_lr_log"),
    )


def lr_over_steps(updates: pd.DataFrame, reports: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return the steps and the learning rates of one trial, from its rows in auto_lr.csv and history.csv."""
    # The rate changes at the step of an update, because this step already uses the new rate.
    points: list[tuple[float, int, float]] = []
    eta, new = numbers(updates, "eta"), numbers(updates, "eta_new")
    for step, old_rate, new_rate in zip(numbers(updates, "step"), eta, new.fillna(eta), strict=True):
        points += [(step, 0, old_rate), (step, 1, new_rate)]
    if len(updates):
        points.append((0.0, 0, float(eta.iloc[0])))
    # The first report after each rollback is left out.
    rolled_back = numbers(reports, "auto_lr_rolled_back").fillna(0.0)
    remaining = reports[~(rolled_back.diff().fillna(rolled_back) > 0)]
    points += [(step, 2, rate) for step, rate in zip(numbers(remaining, "step"), numbers(remaining, "lr"), strict=True)]
    points.sort()
    return [step for step, _, _ in points], [rate for *_, rate in points]


def _panel(updates: pd.DataFrame, reports: pd.DataFrame, trial: pd.Series) -> Panel | None:
    steps, eta, minimisers = (numbers(updates, name) for name in ("step", "eta", "eta_star"))
    curve = lr_over_steps(updates, reports)
    lines: list[Line] = [
        *finite_lines("learning rate eta", *curve, INK),
        *finite_lines("minimiser eta* of the parabola", steps, minimisers, MUTED, style="marks", marker="D"),
    ]
    fallback = updates.get("fallback", pd.Series("", index=updates.index)).map(str)
    reasons = [reason for reason in dict.fromkeys([*_REASONS, *fallback]) if reason not in ("", "nan")]
    for reason, marker in zip(reasons, _MARKERS, strict=False):
        mask = fallback == reason
        lines += finite_lines(
            f"rate kept: {_REASONS.get(reason, reason)}",
            steps[mask],
            eta[mask],
            INK,
            style="marks",
            marker=marker,
            filled=False,
        )
    scale = scale_for(value for value in [*curve[1], *minimisers] if value > 0)
    return Panel(trial_name(trial), "step", "learning rate", tuple(lines), y_scale=scale) if lines else None
