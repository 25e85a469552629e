"""With AutoLR against without it, method by method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.figures.panels import scale_for
from analysis.figures.scales import apply_scale, limits_of
from analysis.figures.selection import METRICS, auto_lr_on, label_of, numbers, selected, swept
from analysis.figures.style import MUTED, OKABE_ITO, PAPER, house_style
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POLICY = ("auto_lr", "auto_lr_smoothing", "auto_lr_probe", "auto_lr_every", "auto_lr_start", "auto_lr_probe_batches")


@dataclass(frozen=True, slots=True)
class Change:
    """A metric of one method at a fixed rate (``without``) and under AutoLR (``with_auto``), and over how many pairs.

    ``pairs`` 0: no two trials differ in the rate's policy alone, and the best trial of each arm stands for it.
    """

    method: str
    without: float
    with_auto: float
    pairs: int


@dataclass(frozen=True, slots=True)
class AblationPanel:
    """One metric over methods; ``better`` is ``lower`` or ``higher``."""

    label: str
    better: str
    scale: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AblationData:
    """``name`` is the stem of the figure's files, ``caption`` what a reader must know to read it."""

    name: str
    title: str
    caption: str
    panels: tuple[AblationPanel, ...]


def ablation_data(table: TrialTable, sweep: SweepFile) -> AblationData | None:
    """Per method and metric, without and with AutoLR; None where no method has finished trials of both kinds.

    Trials that agree in every setting but AutoLR's own are pairs, and a method's values are means over its pairs.
    A method without pairs is shown by the trial of each arm nearest to the ideal corner.
    """
    finished = swept(table.finished)
    on = auto_lr_on(finished)
    panels = []
    for metric in METRICS:
        changes = []
        for method in sorted(set(finished.loc[on, "method"]) & set(finished.loc[~on, "method"])):
            rows = finished[finished["method"] == method]
            change = _paired(rows, table, metric, method) or _best(rows, table, sweep, metric, method)
            changes += [change] if change else []
        if changes:
            values = [value for change in changes for value in (change.without, change.with_auto)]
            scale = scale_for(values) if metric.endswith("loss") else "linear"
            better = "higher" if metric in ("forget_loss", "utility") else "lower"
            panels.append(AblationPanel(label_of(metric), better, scale, tuple(changes)))
    if not panels:
        return None
    lost = sum(_unfinished_pairs(rows, table) for _, rows in swept(table.trials).groupby("method"))
    paired = all(change.pairs for panel in panels for change in panel.changes)
    how = (
        "Means over pairs of trials that differ in the learning-rate policy alone (their number in brackets)."
        if paired
        else "(n): means over n pairs of trials that differ in the learning-rate policy alone. Without a number: no "
        "such pair, so the trial of each arm nearest to the ideal corner; the two also differ in other settings."
    )
    if lost:
        how += f" Left out: {counted(lost, 'pair')} of which a trial did not finish."
    return AblationData("auto_lr_ablation", "Without and with AutoLR", how, tuple(panels))


def draw_ablation(data: AblationData) -> Figure:
    """One panel per metric, a line from the value without to the value with AutoLR per method."""
    with house_style():
        from matplotlib.figure import Figure

        columns = min(2, len(data.panels))
        rows = -(-len(data.panels) // columns)
        height = max(1.9, 0.9 + 0.34 * max(len(panel.changes) for panel in data.panels))
        figure = Figure(figsize=(9.2 if columns == 2 else 6.0, rows * height + 1.0), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        for axes, panel in zip(grid, data.panels, strict=False):
            _dumbbells(axes, panel)
        for axes in grid[len(data.panels) :]:
            axes.remove()
        figure.suptitle(data.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower left", ncols=2)
        return figure


def _dumbbells(axes: Axes, panel: AblationPanel) -> None:
    places = list(range(len(panel.changes)))[::-1]
    before, after = [change.without for change in panel.changes], [change.with_auto for change in panel.changes]
    axes.hlines(places, before, after, color=MUTED, linewidth=1.6, zorder=2)
    axes.scatter(
        before, places, s=52, facecolors=PAPER, edgecolors=OKABE_ITO[0], linewidths=1.6, zorder=3, label="fixed rate"
    )
    axes.scatter(after, places, s=52, marker="D", color=OKABE_ITO[1], zorder=3.5, label="AutoLR")
    labels = [f"{change.method} ({change.pairs})" if change.pairs else change.method for change in panel.changes]
    axes.set_yticks(places, labels)
    axes.set_ylim(-0.6, len(places) - 0.4)
    apply_scale(axes, "x", panel.scale, *limits_of(panel.scale, [*before, *after]))
    axes.set_title(panel.label + (", log scale" if panel.scale == "log" else ""), loc="left", fontsize=10)
    axes.set_xlabel("\u2190 better" if panel.better == "lower" else "better \u2192")


def _paired(rows: pd.DataFrame, table: TrialTable, metric: str, method: str) -> Change | None:
    """The means over trials that agree in every other setting; of several alike in one arm their mean."""
    values = numbers(rows, metric)
    kept = rows[np.isfinite(values)]
    if kept.empty:
        return None
    arms = pd.DataFrame({"on": auto_lr_on(kept), "value": values[np.isfinite(values)]})
    means = arms.groupby([_settings(kept, table), "on"])["value"].mean().unstack("on")
    if not {True, False} <= set(means.columns):
        return None
    pairs = means.dropna()
    if pairs.empty:
        return None
    return Change(method, float(pairs[False].mean()), float(pairs[True].mean()), len(pairs))


def _settings(rows: pd.DataFrame, table: TrialTable) -> pd.Series:
    """What partners of a pair agree in, as text; a missing setting is one too: two trials without a c agree in it."""
    same = [name for name in table.spec_columns if name in rows.columns and name not in _POLICY]
    return rows[same].map(str).agg("|".join, axis=1) if same else pd.Series("", index=rows.index)


def _unfinished_pairs(rows: pd.DataFrame, table: TrialTable) -> int:
    """How many pairs have no finished trial in an arm."""
    arms = pd.DataFrame({"on": auto_lr_on(rows), "finished": rows["status"] == "finished"})
    pairs = arms.groupby([_settings(rows, table), "on"])["finished"].any().unstack("on")
    if not {True, False} <= set(pairs.columns):
        return 0
    return int((~pairs.dropna().astype(bool)).any(axis=1).sum())


def _best(rows: pd.DataFrame, table: TrialTable, sweep: SweepFile, metric: str, method: str) -> Change | None:
    labelled = rows.assign(_on=auto_lr_on(rows))
    best = selected(TrialTable(labelled, table.history, table.spec_columns), sweep, by=("_on",))
    found = dict(zip(best["_on"], numbers(best, metric), strict=True))
    without, with_auto = found.get(False), found.get(True)
    if without is None or with_auto is None or not np.isfinite([without, with_auto]).all():
        return None
    return Change(method, float(without), float(with_auto), 0)
