"""The figure that compares each method with and without AutoLR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.figures.panels import PanelFigure, figure_of
from analysis.figures.representatives import selected, shown_metrics
from analysis.figures.style import (
    INK,
    LEAST_SPAN,
    MUTED,
    PAPER,
    apply_scale,
    house_style,
    legend_of,
    limits_of,
    plots,
    scale_for,
)
from analysis.tables.columns import short
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, auto_lr_on, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Change:
    """The mean of a metric for one method, without AutoLR and with AutoLR.

    ``pairs`` is the number of pairs of trials over which the means are computed. The trials of a pair differ only in
    the use of AutoLR. If ``pairs`` is 0, the values are those of the best trials.
    """

    method: str
    without: float
    with_auto: float
    pairs: int


@dataclass(frozen=True, slots=True)
class AblationPanel:
    """The panel of one metric. ``better`` tells which values are better, ``lower`` or ``higher``."""

    label: str
    better: str
    scale: str
    changes: tuple[Change, ...]


def ablation_data(sources: Sources) -> PanelFigure[AblationPanel] | None:
    """Return each method's metrics without AutoLR and with AutoLR; None if no method has both.

    The values are means over pairs of trials that differ only in the use of AutoLR. Without pairs, the values are those
    of the best trial without AutoLR and the best trial with AutoLR.
    """
    table, own = sources.table, sources.table.own
    labelled = table.trials.assign(_on=auto_lr_on(table.trials))
    best = selected(replace(sources, table=table.with_trials(labelled)), by=("method", "_on"))
    panels = []
    for metric in shown_metrics(table):
        values = numbers(own.finished, metric)
        pairs = _pairs(own, values[np.isfinite(values)], "mean")
        changes = []
        for method in sorted(set(own.finished["method"])):
            paired = pairs[pairs.index.get_level_values("method") == method]
            arms = numbers(best[best["method"] == method], metric).to_numpy()
            if len(paired):
                changes.append(Change(method, float(paired[False].mean()), float(paired[True].mean()), len(paired)))
            elif len(arms) == 2 and np.isfinite(arms).all():  # sorted: without AutoLR, with AutoLR
                changes.append(Change(method, float(arms[0]), float(arms[1]), 0))
        if changes:
            known = [value for change in changes for value in (change.without, change.with_auto)]
            scale = scale_for(known) if table.columns.is_loss(metric) else "linear"
            label = short(metric) + (f" ({unit})" if (unit := table.columns[metric].unit) else "")
            panels.append(AblationPanel(label, table.columns.better(metric), scale, tuple(changes)))
    lost = (~_pairs(own, own.trials["status"] == "finished", "any").astype(bool)).any(axis=1).sum()
    paired_only = all(change.pairs for panel in panels for change in panel.changes)
    caption = note("ablation", paired=paired_only, lost=int(lost))
    return figure_of(panels, name="auto_lr_ablation", title="Without and with AutoLR", caption=caption)


def _pairs(table: TrialTable, values: pd.Series, how: str) -> pd.DataFrame:
    """Return a row for each pair of trials that differ only in AutoLR. The columns are False (off) and True (on)."""
    rows = table.trials.loc[values.index]
    same = [name for name in table.spec_columns if table.columns[name].role != "auto_lr"]
    # As text, two missing values are equal.
    settings = rows[same].map(str).agg("|".join, axis=1) if len(rows) else pd.Series(dtype=object)
    arms = values.groupby([rows["method"], settings, auto_lr_on(rows).rename("on")]).agg(how)
    return arms.unstack("on").reindex(columns=[False, True]).dropna()


def draw_ablation(data: PanelFigure[AblationPanel]) -> Figure:
    """Draw a panel for each metric. A line joins the two values of each method."""
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
