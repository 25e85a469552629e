"""The figure of the trade-off over the values of a method's option, such as c."""

from __future__ import annotations

import pandas as pd

from analysis.figures.panels import Guide, Line, Panel, PanelFigure, colours_of, figure_of, finite_lines
from analysis.figures.representatives import best_trials, listed_options
from analysis.figures.style import INK, scale_for
from analysis.tables.columns import short
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import numbers
from analysis.words import number

_MAX_VALUES = 12
"""The maximum number of values of an option. A search in a range tries more values, at many learning rates."""


def over_options_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of the losses and of the primary metrics over a method's option; None without such an option.

    A line joins, in the order of the option's values, the best trial of a method at each value (:func:`best_trials`). A
    method without this option is one point.
    """
    table = sources.table
    options = listed_options(table, _MAX_VALUES)
    if not options:
        return None
    best = best_trials(sources, ("method", *options))
    columns, losses = table.columns, table.columns.losses
    pairs = [losses, columns.primaries(table.measured(columns.metrics))]
    panels = [_panel(sources, best, option, *pair) for option in options for pair in pairs if len(pair) == 2]
    return figure_of(
        panels,
        name="trade_off_over_options",
        title=f"Trade-off over {', '.join(map(columns.label, options))}",
        caption=note("over_options", names=tuple(map(columns.label, options))),
    )


def _panel(sources: Sources, best: pd.DataFrame, option: str, x_name: str, y_name: str) -> Panel | None:
    columns, colours = sources.table.columns, colours_of(sources.table.methods)
    lines: list[Line] = []
    for method, rows in best.groupby("method", sort=False):
        colour, marker = colours[str(method)]
        ordered = rows.assign(_value=numbers(rows, option)).sort_values("_value", kind="stable")
        values = ordered["_value"].dropna().unique()
        name = f"{method}, {columns.label(option)} {' to '.join(map(number, values))}" if len(values) else str(method)
        xs, ys = numbers(ordered, x_name), numbers(ordered, y_name)
        lines += finite_lines(name, xs, ys, colour, style="dots" if len(values) > 1 else "marks", marker=marker)
    if not lines:
        return None
    target = sources.sweep.baseline
    if x_name in target and y_name in target:
        point = (target[x_name],), (target[y_name],)
        lines += finite_lines("target (before unlearning)", *point, INK, style="marks", marker="*", filled=False)
    guess = sources.sweep.random_guess_loss if columns.is_loss(x_name) else None
    highest = max(x for line in lines for x in line.xs)
    guides = (Guide("x", guess, "random guess"),) if guess is not None and highest > guess / 4 else ()
    y_values = [y for line in lines for y in line.ys]
    y_scale = scale_for(y_values) if columns.is_loss(y_name) else "linear"
    # The full labels of metrics are too long for two panels side by side.
    units = {name: f" ({columns[name].unit})" if columns[name].unit else "" for name in (x_name, y_name)}
    x_label, y_label = (f"{short(name)}{unit}" for name, unit in units.items())
    title = f"{short(y_name)} against {short(x_name)}"
    return Panel(title, x_label, y_label, tuple(lines), guides=guides, y_scale=y_scale)
