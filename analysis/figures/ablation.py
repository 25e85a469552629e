"""The figure that compares each method with and without AutoLR."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.figures.panels import Line, Panel, PanelFigure, figure_of
from analysis.figures.representatives import best_trials, shown_metrics
from analysis.figures.style import INK, MIN_SPAN, MUTED, scale_for
from analysis.tables.columns import short
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, auto_lr_on, numbers

_ARROWS = {"lower": "\u2190 better", "higher": "better \u2192"}


def ablation_data(sources: Sources) -> PanelFigure | None:
    """Return the figure that compares each method without and with AutoLR; None if no method was run both ways.

    The values are means over all pairs of trials that differ only in the use of AutoLR. The label of a method contains
    the number of pairs. For a method without such pairs, the figure compares the best trial without AutoLR with the
    best trial with AutoLR (:func:`best_trials`).
    """
    table, own = sources.table, sources.table.without_external
    labelled_trials = table.trials.assign(_on=auto_lr_on(table.trials))
    best = best_trials(replace(sources, table=table.with_trials(labelled_trials)), by=("method", "_on"))
    panels: list[Panel] = []
    has_unpaired = False
    for metric in shown_metrics(table):
        values = numbers(own.finished, metric)
        pairs = _pairs(own, values[np.isfinite(values)], "mean")
        changes: dict[str, tuple[float, float]] = {}
        for method in sorted(set(own.finished["method"])):
            pairs_of_method = pairs[pairs.index.get_level_values("method") == method]
            # The first value is without AutoLR, the second with AutoLR.
            best_values = numbers(best[best["method"] == method], metric).to_numpy()
            if len(pairs_of_method):
                means = float(pairs_of_method[False].mean()), float(pairs_of_method[True].mean())
                changes[f"{method} ({len(pairs_of_method)})"] = means
            elif len(best_values) == 2 and np.isfinite(best_values).all():
                changes[method] = float(best_values[0]), float(best_values[1])
                has_unpaired = True
        if changes:
            unit = table.columns[metric].unit
            title = f"{short(metric)} ({unit})" if unit else short(metric)
            arrow = _ARROWS.get(table.columns.better(metric), "")
            panels.append(_panel(title, arrow, changes, is_loss=table.columns.is_loss(metric)))
    has_finished = _pairs(own, own.trials["status"] == "finished", "any").astype(bool)
    caption = note("ablation", paired=not has_unpaired, lost=int((~has_finished).any(axis=1).sum()))
    return figure_of(panels, name="auto_lr_ablation", title="Without and with AutoLR", caption=caption)


def _pairs(table: TrialTable, values: pd.Series, how: str) -> pd.DataFrame:
    """Return a row for each pair of trials that differ only in AutoLR, with the columns False (off) and True (on)."""
    rows = table.trials.loc[values.index]
    same_columns = [name for name in table.spec_columns if table.columns[name].role != "auto_lr"]
    # As text, two missing values are equal.
    settings = rows[same_columns].map(str).agg("|".join, axis=1) if len(rows) else pd.Series(dtype=object)
    arms = values.groupby([rows["method"], settings, auto_lr_on(rows).rename("on")]).agg(how)
    return arms.unstack("on").reindex(columns=[False, True]).dropna()


def _panel(title: str, x_label: str, changes: dict[str, tuple[float, float]], *, is_loss: bool) -> Panel:
    positions = tuple(range(len(changes)))
    fixed_values, auto_values = zip(*changes.values(), strict=True)
    lines = [Line("", pair, (position, position), MUTED) for position, pair in enumerate(changes.values())]
    lines += [
        Line("fixed rate", fixed_values, positions, INK, "marks", filled=False),
        Line("AutoLR", auto_values, positions, INK, "marks"),
    ]
    scale = scale_for([*fixed_values, *auto_values]) if is_loss else "linear"
    return Panel(title, x_label, "", tuple(lines), x_scale=scale, x_min_span=MIN_SPAN, y_names=tuple(changes))
