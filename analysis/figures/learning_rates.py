"""Figures of the final metrics and the training curves of each method, for all its learning rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from analysis.figures.panels import (
    Band,
    Gradation,
    Line,
    Panel,
    PanelFigure,
    figure_of,
    finite_lines,
    graded,
    method_colours,
)
from analysis.figures.scales import LEAST_SPAN, scale_for
from analysis.figures.selection import panel_title, shown_metrics
from analysis.figures.style import INK
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, auto_lr_on, numbers, thinned

_MOST_POINTS = 200
_MOST_METHODS = 12
_BUDGET = 4000
"""The maximum number of points in a panel. More points would not be visible and would make the page large."""


def final_metrics_data(sources: Sources) -> PanelFigure[Panel] | None:
    """Return the final metrics over the learning rate, with a row of panels for each method.

    Every fixed-rate trial is a marker. If a rate was tried more than once, or if the trials differ only in the rate, a
    line joins the medians at each rate. AutoLR has no fixed rate, so a horizontal line shows the median of the AutoLR
    trials, and a band their range. The result is None if no method was tried at two rates.
    """
    own = sources.table.own
    finished = own.of(own.finished)
    metrics = finished.measured(shown_metrics(own))
    panels: list[Panel] = []
    for method in _methods_with_rates(own):
        done = _of_method(finished, method)
        if len(done.trials):
            absent = tuple(sorted(set(_rates(_of_method(own, method))) - set(_rates(done))))
            panels += [_final(done, method, metric, absent) for metric in metrics]
    return figure_of(
        panels,
        name="learning_rate_sensitivity",
        title="Final metrics against the learning rate",
        caption=note("learning_rate_sensitivity"),
        columns=min(len(metrics), 2),
    )


def rate_courses_data(sources: Sources) -> PanelFigure[Panel] | None:
    """Return metrics over steps, with a line per trial; None if no method was tried at two rates.

    A line is coloured by its fixed learning rate, and dashed if the trial uses AutoLR.
    """
    table = sources.table.own
    finished = table.of(table.finished)
    methods = _methods_with_rates(finished)
    rows = finished.trials
    drawn = finished.of(rows[rows["method"].isin(methods) & rows["trial_id"].isin(set(table.history["trial_id"]))])
    rates = _rates(drawn)
    if len(set(rates)) < 2:
        return None
    low, high = min(rates), max(rates)
    metrics = shown_metrics(table)
    shown = [_courses(_of_method(drawn, method), name, low, high) for method in methods for name in metrics]
    return figure_of(
        (panel for panels in shown for panel in panels),
        name="courses_by_learning_rate",
        title="The course of training at each learning rate",
        caption=note("courses_by_learning_rate"),
        gradation=Gradation("learning rate, log scale", low, high),
    )


def _of_method(table: TrialTable, method: str) -> TrialTable:
    return table.of(table.trials[table.trials["method"] == method])


def _rates(table: TrialTable) -> list[float]:
    rates = numbers(table.trials[~auto_lr_on(table.trials)], "lr")
    return [float(rate) for rate in rates[rates > 0]]


def _methods_with_rates(table: TrialTable) -> list[str]:
    """Return the methods that were tried at two or more fixed rates. At most 12 methods are returned."""
    methods = sorted(set(table.trials["method"]))
    return [method for method in methods if len(set(_rates(_of_method(table, method)))) >= 2][:_MOST_METHODS]


def _final(table: TrialTable, method: str, metric: str, absent: tuple[float, ...]) -> Panel:
    on = auto_lr_on(table.trials)
    fixed = table.of(table.trials[~on])
    rate, value = numbers(fixed.trials, "lr"), numbers(fixed.trials, metric)
    known = np.isfinite(rate) & (rate > 0) & np.isfinite(value)
    rate, value = rate[known], value[known]
    automatic = numbers(table.trials[on], metric)
    automatic = automatic[np.isfinite(automatic)]
    colour = method_colours(table)[method]
    lines: list[Line] = [*finite_lines(f"{method}, fixed rate", rate, value, colour, look="marks")]
    medians = value.groupby(rate).median().sort_index()
    alike = all(name == "lr" or table.columns[name].role == "auto_lr" for name in fixed.varying)
    if len(medians) > 1 and (len(medians) < len(value) or alike):
        lines.append(Line("", tuple(map(float, medians.index)), tuple(map(float, medians)), colour))
    bands: tuple[Band, ...] = ()
    if len(automatic) and len(rate):
        ends = (min([*rate, *absent]), max([*rate, *absent]))
        low, middle, high = (float(amount) for amount in (automatic.min(), automatic.median(), automatic.max()))
        lines.append(Line("AutoLR, median", ends, (middle, middle), INK, "dashed"))
        bands = (Band("AutoLR, range", ends, (low, low), (high, high), INK),) if high > low else ()
    panel = _panel(table, method, metric, [*value, *automatic], lines)
    return replace(panel, x_label="learning rate, log scale", x_scale="log", bands=bands, absent=absent)


def _courses(table: TrialTable, metric: str, low: float, high: float) -> Iterator[Panel]:
    """Yield the panel for ``metric``, if some trial of the table (of one method) reported the metric at least twice."""
    points = max(12, min(_MOST_POINTS, _BUDGET // max(1, len(table.trials))))
    runs = []
    for (_, row), automatic in zip(table.trials.iterrows(), auto_lr_on(table.trials), strict=True):
        reports = thinned(table.history_of(str(row["trial_id"])), points)
        values = numbers(reports, metric)
        if np.isfinite(values).sum() >= 2:
            runs.append((row, bool(automatic), numbers(reports, "step").tolist(), values.tolist()))
    if not runs:
        return
    panel = _panel(table, str(runs[0][0]["method"]), metric, [value for run in runs for value in run[-1]])
    lines: list[Line] = []
    for row, automatic, steps, course in runs:
        colour = INK if automatic else graded(float(row["lr"]), low, high)
        name, look = ("AutoLR", "dashed") if automatic else ("", "line")
        lines += finite_lines(name, steps, course, colour, look=look, positive=panel.y_scale == "log")
    if lines:
        yield replace(panel, lines=tuple(lines))


def _panel(table: TrialTable, method: str, metric: str, values: Sequence[float], lines: Sequence[Line] = ()) -> Panel:
    """Return a panel over steps whose y axis fits ``values``."""
    scale = scale_for(values) if table.columns.is_loss(metric) else "linear"
    return Panel(
        title=f"{method}: {panel_title(table.columns, metric)}",
        x_label="step",
        y_label=table.columns[metric].unit + (", log scale" if scale == "log" else ""),
        lines=tuple(lines),
        y_scale=scale,
        y_limits=table.columns.limits(metric),
        y_least=LEAST_SPAN,
    )
