"""The figure of the losses along an update of AutoLR and along the two gradients."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.figures.panels import Guide, Panel, PanelFigure, figure_of, finite_lines
from analysis.figures.style import INK, MUTED, OKABE_ITO
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import numbers
from analysis.words import number

_MAX_STEPS = 3
_DIRECTIONS = (
    ("update", "along the update d", INK, "o"),
    ("g_R", "along g_R, retain gradient", OKABE_ITO[0], "s"),
    ("g_F", "along g_F, forget gradient", OKABE_ITO[1], "^"),
)
"""The value of the column ``direction``, the legend entry, the colour and the marker of each line."""


def landscape_data(sources: Sources) -> PanelFigure | None:
    """Return the figure of the losses along three directions at several steps; None without landscape.csv.

    A row of landscape.csv has the losses of the model with the parameters ``theta - x d``. Here, ``theta`` are the
    parameters at the step, ``x`` is a learning rate, and ``d`` is the update direction or a gradient of the same
    length. AutoLR fits the parabola ``loss_zero - slope x + curvature x^2 / 2`` along the update direction.
    """
    rows, columns = sources.landscape, sources.table.columns
    if rows.empty:
        return None
    steps = np.unique(numbers(rows, "step").dropna())
    indices = np.linspace(0, len(steps) - 1, min(len(steps), _MAX_STEPS)).round().astype(int)
    groups = [rows[numbers(rows, "step") == step] for step in steps[indices]]
    unit = next((columns[name].unit for name in columns.losses), "")
    # Each loss has its own panel, because the forget loss rises so fast that the retain loss would look flat.
    panels = [_panel(group, loss, unit) for loss in ("retain", "forget") for group in groups]
    title = "Losses along the update and along the gradients"
    return figure_of(panels, name="loss_landscape", title=title, caption=note("landscape"), columns=3)


def _panel(rows: pd.DataFrame, loss: str, unit: str) -> Panel | None:
    rows = rows.assign(x=numbers(rows, "x")).sort_values("x", kind="stable")
    directions = rows.get("direction", pd.Series("update", index=rows.index))
    lines = {
        name: finite_lines(label, rows["x"][of], numbers(rows, f"{loss}_loss")[of], colour, style="dots", marker=marker)
        for name, label, colour, marker in _DIRECTIONS
        if (of := directions == name).any()
    }
    if not any(lines.values()):
        return None
    x = rows["x"]
    # The fit is the same in all rows of a step.
    first_row = rows.iloc[[0]]
    fit_columns = ("loss_zero", "slope", "curvature", "eta", "eta_star")
    fit = {name: float(numbers(first_row, name).iloc[0]) for name in fit_columns}
    loss_zero, slope, curvature = fit["loss_zero"], fit["slope"], fit["curvature"]
    has_parabola = bool(np.isfinite([loss_zero, slope, curvature]).all())
    finite_x = x[np.isfinite(x)]
    if loss == "retain" and has_parabola and len(finite_x) > 1:
        grid = np.linspace(finite_x.min(), finite_x.max(), 60)
        parabola = loss_zero - slope * grid + curvature * grid**2 / 2
        lines["parabola"] = finite_lines("parabola, fitted along d", grid, parabola, MUTED, style="dashed")
    marks = ((fit["eta"], "eta"), (fit["eta_star"], "eta*"))
    guides = [Guide("x", value, label) for value, label in marks if x.min() <= value <= x.max()]
    title = f"{loss} loss, step {number(int(first_row['step'].iloc[0]))}"
    all_lines = tuple(line for group in lines.values() for line in group)
    return Panel(title, "learning rate x", unit, all_lines, guides=(Guide("x", 0.0), *guides))
