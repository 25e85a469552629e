"""Figures of AutoLR: the learning rate over steps, and the losses along the update direction."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.figures.panels import Guide, Panel, PanelFigure, figure_of, finite_lines
from analysis.figures.representatives import selected
from analysis.figures.style import INK, MUTED, OKABE_ITO, scale_for
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import auto_lr_on, numbers
from analysis.words import number, trial_name

_MOST_TRIALS = 6
_MOST_STEPS = 3
_REASONS = ("no descent", "no curvature", "not finite")
_MARKERS = ("x", "s", "^", "v", "P", "D")


def auto_lr_data(sources: Sources) -> PanelFigure | None:
    """Return the learning rate over steps, with a panel for each AutoLR trial; None without updates.

    For each method, the finished trial nearest to the ideal corner is shown. If no trial has finished, the first trials
    are shown.
    """
    updates, table = sources.auto_lr, sources.table
    if updates.empty:
        return None
    trials = table.trials[auto_lr_on(table.trials) & table.trials["trial_id"].isin(set(updates["trial_id"]))]
    chosen = selected(replace(sources, table=table.with_trials(trials)))
    names = {str(row["trial_id"]): trial_name(row) for _, row in chosen.iterrows()}
    names = names or {str(trial_id): f"trial {trial_id}" for trial_id in dict.fromkeys(updates["trial_id"])}
    return figure_of(
        (
            _rates(updates[updates["trial_id"] == trial], table.history_of(trial), name)
            for trial, name in list(names.items())[:_MOST_TRIALS]
        ),
        name="auto_lr_log",
        title="What AutoLR did at each update",
        caption=note("auto_lr_log"),
    )


def landscape_data(sources: Sources) -> PanelFigure | None:
    """Return the losses along the update direction at several steps of the first trial.

    A row of landscape.csv has the losses of the model at ``theta - x d``. Here, ``theta`` are the parameters, ``d`` is
    the update direction, and ``x`` is in units of the learning rate. The fitted parabola is
    ``loss_zero - slope x + curvature x^2 / 2``.
    """
    landscape, columns = sources.landscape, sources.table.columns
    if landscape.empty:
        return None
    rows = landscape[landscape["trial_id"] == landscape["trial_id"].iloc[0]]
    steps = np.unique(numbers(rows, "step").dropna())
    places = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_STEPS)).round().astype(int)
    at = [rows[numbers(rows, "step") == step] for step in steps[places]]
    unit = next((columns[name].unit for name in columns.losses), "")
    # Each loss has its own panel, because the forget loss rises so fast that the retain loss would look flat.
    return figure_of(
        (_landscape(part, loss, unit) for loss in ("retain", "forget") for part in at),
        name="loss_landscape",
        title="Losses along the update direction",
        caption=note("landscape"),
        columns=3,
    )


def rate_course(updates: pd.DataFrame, reports: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return the steps and the learning rates of one trial, from its rows in auto_lr.csv and history.csv."""
    # The rate changes at the step of an update, because this step already uses the new rate.
    points: list[tuple[float, int, float]] = []
    eta, new = numbers(updates, "eta"), numbers(updates, "eta_new")
    for at, before, after in zip(numbers(updates, "step"), eta, new.fillna(eta), strict=True):
        points += [(at, 0, before), (at, 1, after)]
    if len(updates):
        points.append((0.0, 0, float(eta.iloc[0])))
    # A report after a rollback is left out.
    back = numbers(reports, "auto_lr_rolled_back").fillna(0.0)
    undone = back.diff().fillna(back) > 0
    kept = reports[~undone]
    points += [(at, 2, rate) for at, rate in zip(numbers(kept, "step"), numbers(kept, "lr"), strict=True)]
    points.sort()
    return [at for at, _, _ in points], [rate for *_, rate in points]


def _rates(rows: pd.DataFrame, reports: pd.DataFrame, title: str) -> Panel | None:
    steps, eta, best = (numbers(rows, name) for name in ("step", "eta", "eta_star"))
    course = rate_course(rows, reports)
    fallback = rows["fallback"].map(str) if "fallback" in rows.columns else pd.Series("", index=rows.index)
    lines = [
        *finite_lines("learning rate eta", *course, INK),
        *finite_lines("eta* of the parabola", steps, best, MUTED, look="marks", marker="D"),
    ]
    found = [reason for reason in dict.fromkeys([*_REASONS, *fallback]) if reason not in ("", "nan")]
    for reason, marker in zip(found, itertools.cycle(_MARKERS), strict=False):
        at = fallback == reason
        lines += finite_lines(
            f"no minimum: {reason}", steps[at], eta[at], INK, look="marks", marker=marker, filled=False
        )
    scale = scale_for([value for value in [*course[1], *best] if value > 0])
    if not lines:
        return None
    return Panel(title, "step", "learning rate", tuple(lines), y_scale=scale)


def _landscape(rows: pd.DataFrame, loss: str, unit: str) -> Panel | None:
    rows = rows.assign(x=numbers(rows, "x")).sort_values("x", kind="stable")
    x, first = rows["x"], rows.iloc[[0]]
    colour, marker = (OKABE_ITO[0], "o") if loss == "retain" else (OKABE_ITO[1], "s")
    lines = finite_lines(f"{loss} loss", x, numbers(rows, f"{loss}_loss"), colour, look="dots", marker=marker)
    if not lines:
        return None
    zero, slope, curvature, eta, best = (
        float(numbers(first, name).iloc[0]) for name in ("loss_zero", "slope", "curvature", "eta", "eta_star")
    )
    known = x[np.isfinite(x)]
    if loss == "retain" and np.isfinite([zero, slope, curvature]).all() and len(known) > 1:
        grid = np.linspace(known.min(), known.max(), 60)
        fitted = zero - slope * grid + curvature * grid**2 / 2
        lines += finite_lines("fitted parabola", grid, fitted, MUTED, look="dashed")
    marks = ((eta, "eta"), (best, "eta*"))
    guides = [Guide("x", value, label) for value, label in marks if x.min() <= value <= x.max()]
    title = f"{loss} loss, step {number(int(first['step'].iloc[0]))}"
    return Panel(title, "x (learning rate)", unit, lines, guides=(Guide("x", 0.0), *guides))
