"""Figures of metrics and gradients over training steps, and of final metrics over the learning rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.figures.panels import (
    Band,
    Guide,
    Line,
    Panel,
    PanelFigure,
    colours_of,
    figure_of,
    finite_lines,
    log_colour,
)
from analysis.figures.representatives import listed_options, panel_title, shown_metrics, shown_trials
from analysis.figures.style import INK, MIN_SPAN, scale_for
from analysis.tables.columns import Columns
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, auto_lr_on, numbers, thinned
from analysis.words import trial_name

_NORMS = ("grad_norm_retain", "grad_norm_forget")
_GRADIENT_LABELS = {
    **dict.fromkeys(_NORMS, "norm"),
    "grad_cosine": "cosine",
    "c_t": "c_t",
    "lr": "learning rate",
}
"""The axis label of each column."""
_SHARE_COLUMNS = ("grad_cosine", "c_t")
_MAX_METHODS = 12
_MAX_POINTS, _MAX_POINTS_OF_MANY = 400, 200
_MAX_PANEL_POINTS = 4000
"""The maximum number of points in a panel. More points would only make the page larger."""


def metrics_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of losses and primary metrics over steps; None if no trial has a history.

    Each method, or each listed value of a method's option such as c, has a line for one trial (:func:`shown_trials`).
    If the target was measured before unlearning, the line starts at step 0 with the target's score.
    """
    columns = sources.table.columns
    units = {name: columns[name].unit or panel_title(columns, name) for name in shown_metrics(sources.table)}
    panels = _method_panels(sources, units, from_target=True)
    caption = note("metrics_over_steps")
    return figure_of(panels, name="metrics_over_steps", title="Metrics over steps", caption=caption)


def gradients_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of the gradients, the weight ``c_t`` and the learning rate over steps; None without data.

    ``c_t`` is the weight of the retain gradient. The learning rate divided by the norm of a gradient is the rate at
    which NGDiff with SGD follows this gradient. The norms and the cosine of the gradients are measured only for
    methods that compute the two gradients separately.
    """
    table = sources.table
    rates = {
        f"learning rate / {table.columns.label(name)}": numbers(table.history, "lr") / numbers(table.history, name)
        for name in _NORMS
    }
    history = table.history.assign(**{name: rate.where(np.isfinite) for name, rate in rates.items()})
    units = _GRADIENT_LABELS | dict.fromkeys(rates, "learning rate / norm")
    panels = _method_panels(replace(sources, table=replace(table, history=history)), units, from_target=False)
    caption = note("gradients_over_steps")
    return figure_of(
        panels, name="gradients_over_steps", title="Gradients and learning rate over steps", caption=caption
    )


def final_metrics_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of the final metrics over the learning rate; None if no method was tried at two fixed rates.

    Each panel shows one metric of one method. A marker is a fixed-rate trial, and a line joins the medians of the
    trials at each rate. A horizontal line shows the median of the AutoLR trials, and a band shows their range.
    """
    own = sources.table.without_external
    metrics = own.with_trials(own.finished).measured(shown_metrics(own))
    tables = [own.with_trials(own.trials[own.trials["method"] == method]) for method in _methods_with_rates(own.trials)]
    return figure_of(
        (_final_metric_panel(table, metric) for table in tables if len(table.finished) for metric in metrics),
        name="learning_rate_sensitivity",
        title="Final metrics against the learning rate",
        caption=note("learning_rate_sensitivity"),
        columns=min(len(metrics), 2),
    )


def lr_curves_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of metrics over steps for each learning rate; None if no method has two fixed rates.

    Each line is a trial. Lines of fixed-rate trials are coloured by the rate. Lines of AutoLR trials are dashed.
    """
    table = sources.table.without_external
    methods = _methods_with_rates(table.finished)
    with_history = table.finished[table.finished["trial_id"].isin(set(table.history["trial_id"]))]
    tables = [table.with_trials(with_history[with_history["method"] == method]) for method in methods]
    rates = [rate for item in tables for rate in _fixed_rates(item.trials)]
    if len(set(rates)) < 2:
        return None
    low, high = min(rates), max(rates)
    return figure_of(
        (_lr_curves_panel(item, metric, low, high) for item in tables for metric in shown_metrics(table)),
        name="courses_by_learning_rate",
        title="Training curves at each learning rate",
        caption=note("courses_by_learning_rate"),
        rates=(low, high),
    )


def _method_panels(sources: Sources, units: Mapping[str, str], *, from_target: bool) -> Iterator[Panel]:
    table, sweep = sources.table, sources.sweep
    columns = table.columns
    # If a method has several lines, each line has its own colour. Otherwise, a method has its usual colour.
    trials = shown_trials(sources, ("method", *(listed_options(table) if from_target else ())))
    by_method = colours_of(table.methods)
    colours = {str(row["trial_id"]): by_method[str(row["method"])] for _, row in trials.iterrows()}
    if trials["method"].duplicated().any():
        colours = colours_of(trials["trial_id"].map(str))
    for column, unit in units.items():
        lines: list[Line] = []
        scale_values: list[float] = []
        for _, row in trials.iterrows():
            reports = thinned(table.history_of(str(row["trial_id"])), _MAX_POINTS)
            steps = numbers(reports, "step").to_numpy()
            values = numbers(reports, column).to_numpy()
            if not np.isfinite(values).any():
                continue
            scale_values += values.tolist()
            start = sweep.baseline_of(row).get(column) if from_target else None
            # A start of 0 is left out, because it would prevent a logarithmic scale.
            if start is not None and start != 0:
                scale_values.append(start)
            if start is not None and steps[0] > 0:
                steps = np.insert(steps, 0, 0.0)
                values = np.insert(values, 0, start)
            colour, marker = colours[str(row["trial_id"])]
            lines += finite_lines(trial_name(row), steps, values, colour, style="dots", marker=marker)
        if not lines:
            continue
        guess = sweep.random_guess_loss if columns[column].of == "forget" else None
        panel = _panel(columns, column, _scale(columns, column, scale_values), lines)
        limits = (-0.03, 1.03) if column == "c_t" else panel.y_limits
        yield replace(panel, y_label=unit, guides=_guides(column, guess, lines), y_limits=limits)


def _guides(column: str, guess: float | None, lines: Sequence[Line]) -> tuple[Guide, ...]:
    if guess is not None and max(y for line in lines for y in line.ys) > guess / 4:
        return (Guide("y", guess, "random guess"),)
    return (Guide("y", 0.0),) if column == "grad_cosine" else ()


def _lr_curves_panel(table: TrialTable, metric: str, low: float, high: float) -> Panel | None:
    """Return the panel of a metric over steps for the trials of one method; None if no trial reported it twice."""
    max_points = max(12, min(_MAX_POINTS_OF_MANY, _MAX_PANEL_POINTS // max(1, len(table.trials))))
    lines: list[Line] = []
    all_values: list[float] = []
    for (_, row), is_auto in zip(table.trials.iterrows(), auto_lr_on(table.trials), strict=True):
        reports = thinned(table.history_of(str(row["trial_id"])), max_points)
        steps, values = numbers(reports, "step"), numbers(reports, metric)
        if np.isfinite(values).sum() < 2:
            continue
        all_values += values.tolist()
        if is_auto:
            lines += finite_lines("AutoLR", steps, values, INK, style="dashed")
        else:
            lines += finite_lines("", steps, values, log_colour(row["lr"], low, high))
    if not lines:
        return None
    scale = _scale(table.columns, metric, all_values)
    return _panel(table.columns, metric, scale, lines, method=table.trials["method"].iloc[0])


def _final_metric_panel(table: TrialTable, metric: str) -> Panel | None:
    """Return the panel of a final metric over the rate for the trials of one method; None if nothing can be drawn."""
    done = table.with_trials(table.finished)
    method = str(table.trials["method"].iloc[0])
    missing_rates = tuple(sorted(set(_fixed_rates(table.trials)) - set(_fixed_rates(done.trials))))
    is_auto = auto_lr_on(done.trials)
    fixed = done.with_trials(done.trials[~is_auto])
    lr, scores = numbers(fixed.trials, "lr"), numbers(fixed.trials, metric)
    is_usable = np.isfinite(lr) & (lr > 0) & np.isfinite(scores)
    rates, values = lr[is_usable], scores[is_usable]
    all_rates = [*rates, *missing_rates]
    if not all_rates:
        return None
    auto_scores = numbers(done.trials[is_auto], metric)
    # Without a fixed-rate trial to compare with, the AutoLR trials are not drawn.
    auto_values = auto_scores[np.isfinite(auto_scores)] if len(rates) else auto_scores.head(0)
    colour, _ = colours_of(table.methods)[method]
    lines: list[Line] = [*finite_lines(f"{method}, fixed rate", rates, values, colour, style="marks")]
    medians = values.groupby(rates).median().sort_index()
    only_lr_varies = all(name == "lr" or done.columns[name].role == "auto_lr" for name in fixed.varying)
    # If each rate was tried only once, a line is drawn only if the trials differ in no other setting.
    if len(medians) > 1 and (len(medians) < len(values) or only_lr_varies):
        lines += finite_lines("", medians.index, medians, colour)
    bands: tuple[Band, ...] = ()
    if len(auto_values):
        x_range = (min(all_rates), max(all_rates))
        low, median, high = (float(amount) for amount in (auto_values.min(), auto_values.median(), auto_values.max()))
        lines.append(Line("AutoLR, median", x_range, (median, median), INK, "dashed"))
        if high > low:
            bands = (Band("AutoLR, range", x_range, (low, low), (high, high), INK),)
    scale = _scale(done.columns, metric, [*values, *auto_values])
    panel = _panel(done.columns, metric, scale, lines, method=method)
    return replace(panel, x_label="learning rate", x_scale="log", bands=bands, absent=missing_rates)


def _fixed_rates(trials: pd.DataFrame) -> list[float]:
    rates = numbers(trials[~auto_lr_on(trials)], "lr")
    return [float(rate) for rate in rates[rates > 0]]


def _methods_with_rates(trials: pd.DataFrame) -> list[str]:
    """Return at most 12 methods that were tried at two or more fixed rates."""
    methods = [str(method) for method, rows in trials.groupby("method") if len(set(_fixed_rates(rows))) >= 2]
    return methods[:_MAX_METHODS]


def _scale(columns: Columns, column: str, values: Iterable[float]) -> str:
    return "linear" if columns[column].role == "metric" or column in _SHARE_COLUMNS else scale_for(values)


def _panel(columns: Columns, column: str, scale: str, lines: Sequence[Line], *, method: str = "") -> Panel:
    title = panel_title(columns, column)
    has_min_span = column == "grad_cosine" or columns[column].role in ("loss", "metric")
    return Panel(
        title=f"{method}: {title}" if method else title,
        x_label="step",
        y_label=columns[column].unit,
        lines=tuple(lines),
        y_scale=scale,
        y_limits=columns.limits(column),
        y_min_span=MIN_SPAN if has_min_span else 0.0,
    )
