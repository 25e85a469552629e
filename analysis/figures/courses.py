"""Figures of training: metrics, gradients and learning rates over steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from analysis.figures.auto_lr import rate_course
from analysis.figures.panels import Guide, Line, Panel, PanelFigure, colours_of, figure_of, finite_lines
from analysis.figures.scales import LEAST_SPAN, scale_for
from analysis.figures.selection import panel_title, shown_metrics, shown_trials
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import numbers, thinned
from analysis.words import trial_name

_GRADIENTS = {
    "grad_norm_retain": "norm",
    "grad_norm_forget": "norm",
    "grad_cosine": "cosine",
    "c_t": "c_t",
    "lr": "learning rate",
}
"""The axis label of each column."""
_SHARES = ("grad_cosine", "c_t")
_MOST_POINTS = 400


def metrics_data(sources: Sources) -> PanelFigure[Panel] | None:
    """Return losses and reported scores over steps. Each method is shown by its trial nearest to the ideal corner.

    If the target before unlearning was measured, each line starts with the target's score at step 0. The result is None
    if there is no history.
    """
    columns = sources.table.columns
    units = {name: columns[name].unit or panel_title(columns, name) for name in shown_metrics(sources.table)}
    return figure_of(
        _panels(sources, units, from_target=True),
        name="metrics_over_steps",
        title="Metrics over steps",
        caption=note("metrics_over_steps"),
    )


def gradients_data(sources: Sources) -> PanelFigure[Panel] | None:
    """Return gradient norms, their cosine, ``c_t`` and the learning rate over steps; None if no trial reported them.

    The same trials as in :func:`metrics_data` are shown. Only methods with two separate gradients measure norms and
    cosine.
    """
    return figure_of(
        _panels(sources, _GRADIENTS, from_target=False),
        name="gradients_over_steps",
        title="Gradients and learning rate over steps",
        caption=note("gradients_over_steps"),
    )


def _panels(sources: Sources, units: Mapping[str, str], *, from_target: bool) -> Iterator[Panel]:
    table, sweep = sources.table, sources.sweep
    colours = colours_of(table.methods)
    trials = shown_trials(sources)
    for column, unit in units.items():
        courses = []
        for _, row in trials.iterrows():
            reports = thinned(table.history_of(str(row["trial_id"])), _MOST_POINTS)
            steps, values = numbers(reports, "step").to_numpy(), numbers(reports, column).to_numpy()
            if column == "lr" and len(sources.auto_lr):
                updates = sources.auto_lr[sources.auto_lr["trial_id"] == row["trial_id"]]
                steps, values = map(np.asarray, rate_course(updates, reports)) if len(updates) else (steps, values)
            if np.isfinite(values).any():
                courses.append((row, steps, values))
        starts = [sweep.baseline_of(row).get(column) if from_target else None for row, _, _ in courses]
        every = [value for _, _, values in courses for value in values] + [start for start in starts if start]
        score = table.columns[column].role == "metric" or column in _SHARES
        scale = "linear" if score else scale_for(every)
        lines: list[Line] = []
        for (row, steps, values), start in zip(courses, starts, strict=True):
            if start is not None and steps[0] > 0:
                steps, values = np.insert(steps, 0, 0.0), np.insert(values, 0, start)
            colour, marker = colours[str(row["method"])]
            name, log = trial_name(row), scale == "log"
            look = "line" if len(steps) > len(set(steps)) else "dots"
            lines += finite_lines(name, steps, values, colour, look=look, marker=marker, positive=log)
        if not lines:
            continue
        guess = sweep.random_guess_loss if table.columns[column].of == "forget" else None
        guides = (Guide("y", 0.0),) if column == "grad_cosine" else ()
        if guess is not None and max(y for line in lines for y in line.ys) > guess / 4:
            guides = (Guide("y", guess, "random guess"),)
        yield Panel(
            title=panel_title(table.columns, column),
            x_label="step",
            y_label=unit + (", log scale" if scale == "log" else ""),
            lines=tuple(lines),
            guides=guides,
            y_scale=scale,
            y_limits=(-0.03, 1.03) if column == "c_t" else table.columns.limits(column),
            y_least=LEAST_SPAN if column == "grad_cosine" or table.columns[column].role in ("loss", "metric") else 0.0,
        )
