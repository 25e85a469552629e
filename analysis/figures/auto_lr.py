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
    "no curvature": "no curvature",
    "not finite": "loss not finite",
}
_MARKERS = ("x", "s", "^", "v", "P", "D")


def auto_lr_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of the learning rate over steps; None if no trial has AutoLR updates.

    Each panel shows one AutoLR trial of a method (:func:`shown_trials`).
    """
    table = sources.table
    has_updates = table.trials["trial_id"].isin(set(table.updates["trial_id"]))
    trials = table.trials[auto_lr_on(table.trials) & has_updates]
    selected_rows = shown_trials(replace(sources, table=table.with_trials(trials))).head(_MAX_TRIALS)
    panels = []
    for _, row in selected_rows.iterrows():
        updates = table.updates[table.updates["trial_id"] == row["trial_id"]]
        panels.append(_panel(updates, table.history_of(row["trial_id"]), row))
    return figure_of(
        panels, name="auto_lr_log", title="Learning rate at each AutoLR update", caption=note("auto_lr_log")
    )


def lr_over_steps(updates: pd.DataFrame, reports: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return the steps and the learning rates of one trial, from its rows in auto_lr.csv and history.csv."""
    # Triples (step, position within the step, rate). The step of an update already uses the new rate.
    points: list[tuple[float, int, float]] = []
    eta = numbers(updates, "eta")
    new_rates = numbers(updates, "eta_new").fillna(eta)
    for step, old_rate, new_rate in zip(numbers(updates, "step"), eta, new_rates, strict=True):
        points += [(step, 0, old_rate), (step, 1, new_rate)]
    if len(updates):
        points.append((0.0, 0, float(eta.iloc[0])))
    # The first report after each restart is left out.
    undone_steps = numbers(reports, "steps_undone").fillna(0.0)
    is_after_restart = undone_steps.diff().fillna(undone_steps) > 0
    remaining = reports[~is_after_restart]
    points += [(step, 2, rate) for step, rate in zip(numbers(remaining, "step"), numbers(remaining, "lr"), strict=True)]
    points.sort()
    return [step for step, _, _ in points], [rate for _, _, rate in points]


def _panel(updates: pd.DataFrame, reports: pd.DataFrame, trial: pd.Series) -> Panel | None:
    steps, eta, eta_star = (numbers(updates, name) for name in ("step", "eta", "eta_star"))
    curve_steps, curve_rates = lr_over_steps(updates, reports)
    lines: list[Line] = [
        *finite_lines("learning rate eta", curve_steps, curve_rates, INK),
        *finite_lines("minimiser eta* of the parabola", steps, eta_star, MUTED, style="marks", marker="D"),
    ]
    fallback = updates.get("fallback", pd.Series("", index=updates.index)).map(str)
    # The reasons in _REASONS come first, so that each has the same marker in all panels.
    all_reasons = dict.fromkeys([*_REASONS, *fallback])
    reasons = [reason for reason in all_reasons if reason not in ("", "nan")]
    for reason, marker in zip(reasons, _MARKERS, strict=False):
        mask = fallback == reason
        label = f"rate kept: {_REASONS.get(reason, reason)}"
        lines += finite_lines(label, steps[mask], eta[mask], INK, style="marks", marker=marker, filled=False)
    if not lines:
        return None
    scale = scale_for(rate for rate in [*curve_rates, *eta_star] if rate > 0)
    return Panel(trial_name(trial), "step", "learning rate", tuple(lines), y_scale=scale)
