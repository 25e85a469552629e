"""The figure that compares each method with and without AutoLR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.figures.panels import PanelFigure, figure_of
from analysis.figures.scales import LEAST_SPAN, apply_scale, limits_of, scale_for
from analysis.figures.selection import selected, shown_metrics
from analysis.figures.style import INK, MUTED, PAPER, house_style, legend_of, plots
from analysis.tables.columns import short
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, auto_lr_on, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Change:
    """The mean of a metric of one method at a fixed rate (``without``) and with AutoLR (``with_auto``).

    Each mean is over ``pairs`` pairs of trials that differ only in the use of AutoLR. If there is no such pair,
    ``pairs`` is 0, and the values are those of the best trial of each arm.
    """

    method: str
    without: float
    with_auto: float
    pairs: int


@dataclass(frozen=True, slots=True)
class AblationPanel:
    """The panel of one metric, for all methods. ``better`` says whether ``lower`` or ``higher`` values are better."""

    label: str
    better: str
    scale: str
    changes: tuple[Change, ...]


def ablation_data(sources: Sources) -> PanelFigure[AblationPanel] | None:
    """Return each metric of each method without and with AutoLR; None if no method has finished trials of both kinds.

    Trials whose settings are equal except for AutoLR form pairs, and a method's values are means over its pairs. A
    method without pairs is represented by the trial of each arm that is nearest to the ideal corner.
    """
    table = sources.table
    finished, columns = table.own.finished, table.columns
    on = auto_lr_on(finished)
    panels = []
    for metric in shown_metrics(table):
        changes = []
        for method in sorted(set(finished.loc[on, "method"]) & set(finished.loc[~on, "method"])):
            part = table.of(finished[finished["method"] == method])
            measured = numbers(part.trials, metric)
            pairs = _pairs(part, measured[np.isfinite(measured)], "mean")
            if len(pairs):
                changes.append(Change(method, float(pairs[False].mean()), float(pairs[True].mean()), len(pairs)))
            elif change := _best(replace(sources, table=part), metric, method):
                changes.append(change)
        if changes:
            values = [value for change in changes for value in (change.without, change.with_auto)]
            scale = scale_for(values) if columns.is_loss(metric) else "linear"
            label = short(metric) + (f" ({unit})" if (unit := columns[metric].unit) else "")
            panels.append(AblationPanel(label, columns.better(metric), scale, tuple(changes)))
    lost = 0
    for _, rows in table.own.trials.groupby("method"):
        pairs = _pairs(table.of(rows), rows["status"] == "finished", "any")
        lost += int((~pairs.astype(bool)).any(axis=1).sum())
    paired = all(change.pairs for panel in panels for change in panel.changes)
    caption = note("ablation", paired=paired, lost=lost)
    return figure_of(panels, name="auto_lr_ablation", title="Without and with AutoLR", caption=caption)


def draw_ablation(data: PanelFigure[AblationPanel]) -> Figure:
    """Draw a panel for each metric, with a line for each method from its value without AutoLR to that with AutoLR."""
    with house_style():
        columns = min(2, len(data.panels))
        height = max(1.9, 0.9 + 0.34 * max(len(panel.changes) for panel in data.panels))
        width = 9.2 if columns == 2 else 6.0
        figure, grid = plots(data.title, len(data.panels), columns, width=width, height=height, more=1.0)
        for axes, panel in zip(grid, data.panels, strict=True):
            _dumbbells(axes, panel)
        legend_of(figure, grid[0])
        return figure


def _dumbbells(axes: Axes, panel: AblationPanel) -> None:
    places = list(range(len(panel.changes)))[::-1]
    before, after = [change.without for change in panel.changes], [change.with_auto for change in panel.changes]
    axes.hlines(places, before, after, color=MUTED, linewidth=1.6, zorder=2)
    axes.scatter(before, places, s=52, facecolors=PAPER, edgecolors=INK, linewidths=1.6, zorder=3, label="fixed rate")
    axes.scatter(after, places, s=52, color=INK, zorder=3.5, label="AutoLR")
    labels = [f"{change.method} ({change.pairs})" if change.pairs else change.method for change in panel.changes]
    axes.set_yticks(places, labels)
    axes.set_ylim(-0.6, len(places) - 0.4)
    apply_scale(axes, "x", panel.scale, *limits_of(panel.scale, [*before, *after], least=LEAST_SPAN))
    axes.set_title(panel.label + (", log scale" if panel.scale == "log" else ""), loc="left", fontsize=10)
    axes.set_xlabel({"lower": "\u2190 better", "higher": "better \u2192"}.get(panel.better, ""))


def _pairs(table: TrialTable, values: pd.Series, how: str) -> pd.DataFrame:
    """Pair trials without and with AutoLR whose other settings are equal. Return a row for each pair.

    The columns are False (without AutoLR) and True (with AutoLR). If several trials have the same settings, ``how``
    aggregates them. Settings are compared as text, and two trials without a value for a setting have equal settings.
    """
    rows = table.trials.loc[values.index]
    same = [name for name in table.spec_columns if table.columns[name].role != "auto_lr"]
    settings = rows[same].map(str).agg("|".join, axis=1) if len(rows) else pd.Series(dtype=object)
    arms = values.groupby([settings, auto_lr_on(rows).rename("on")]).agg(how)
    return arms.unstack("on").reindex(columns=[False, True]).dropna()


def _best(sources: Sources, metric: str, method: str) -> Change | None:
    trials = sources.table.trials
    labelled = sources.table.of(trials.assign(_on=auto_lr_on(trials)))
    best = selected(replace(sources, table=labelled), by=("_on",))
    values = numbers(best, metric).to_numpy()
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    # The rows are sorted by arm: without AutoLR, with AutoLR.
    return Change(method, float(values[0]), float(values[1]), 0)
