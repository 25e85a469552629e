"""The figure of the frontier before and after attacks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.figures.panels import Line, Panel, PanelFigure, colours_of, figure_of
from analysis.figures.style import INK
from analysis.tables.columns import Columns
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import numbers


def attacked_figure(sources: Sources) -> PanelFigure | None:
    """Return a figure with one panel for each attack: the attacked models before and after it; None without attacks.

    The x axis is what the models tell of the forget set, and the y axis what they keep. If a kept score is not measured
    after an attack, the score before the attack is shown.
    """
    rows, columns = sources.table.models.trials, sources.sweep.columns
    forget, keep = _score(rows, columns, "forget"), _score(rows, columns, "retain")
    if forget is None or keep is None:
        return None
    endings = [name for name, item in columns.entries.items() if item.attacked == forget and name in rows]
    panels = [_panel(sources, rows, forget, keep, name) for name in endings if numbers(rows, name).notna().any()]
    title = "The frontier before and after attacks"
    return figure_of(panels, name="attacked_frontier", title=title, caption=note("attacked_frontier"), columns=3)


def _panel(sources: Sources, rows: pd.DataFrame, forget: str, keep: str, name: str) -> Panel:
    columns = sources.sweep.columns
    kept_name = keep + name.removeprefix(name.partition("_after_")[0]) if "_after_" in name else keep
    kept_after = kept_name if kept_name in rows and numbers(rows, kept_name).notna().any() else keep
    rows = rows[numbers(rows, name).notna() & numbers(rows, forget).notna()]
    before = np.column_stack([numbers(rows, forget), numbers(rows, keep)]).astype(float)
    after = np.column_stack([numbers(rows, name), numbers(rows, kept_after)]).astype(float)
    colour = colours_of([columns[name].attack])[columns[name].attack][0]
    lines = [
        Line("", (x0, x1), (y0, y1), colour, style="dashed")
        for (x0, y0), (x1, y1) in zip(before, after, strict=True)
        if np.isfinite([x0, y0, x1, y1]).all()
    ]
    for label, points, ink, filled in (("before", before, INK, False), ("after", after, colour, True)):
        finite = points[np.isfinite(points).all(axis=1)]
        lines.append(Line(label, tuple(finite[:, 0]), tuple(finite[:, 1]), ink, style="marks", filled=filled))
    for model, marker, scores in (
        ("target", "x", sources.sweep.baseline),
        ("never saw", "s", sources.sweep.never_saw),
    ):
        kept = scores.get(kept_after, scores.get(keep))
        if name in scores and kept is not None:
            lines.append(Line(f"{model}, attacked", (scores[name],), (kept,), INK, style="marks", marker=marker))
    return Panel(name, columns.label(forget), columns.label(keep), tuple(lines), y_limits=(0.0, 1.02))


def _score(rows: pd.DataFrame, columns: Columns, of: str) -> str | None:
    """Return the score of an axis: one that the criterion ``usable`` needs, otherwise the primary metric."""
    measured = [name for name in columns.entries if name in rows and numbers(rows, name).notna().any()]
    own = [name for name in measured if columns[name].of == of]
    shares = (name for name in own if "share" in (columns[name].usable or {}))
    return next(shares, next(iter(columns.primaries(own)), None))
