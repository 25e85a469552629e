"""The figure of two gradients and an update direction, in the plane that the gradients span."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.figures.panels import PanelFigure, figure_of
from analysis.figures.representatives import shown_trials
from analysis.figures.style import INK, MUTED, OKABE_ITO, house_style, legend_of, plots
from analysis.tables.note import note
from analysis.tables.sources import Sources
from analysis.tables.trial_table import numbers
from analysis.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Vector = tuple[float, float]
_MOST_METHODS = 9
_FAR = 4.0
"""A distance that is larger than the diagonal of a panel."""


@dataclass(frozen=True, slots=True)
class Plane:
    """The two gradients of a trial at one step, as vectors in the plane that they span.

    The longer vector has length 1. ``retain`` lies on the horizontal axis. ``direction`` is
    ``c_t retain + (1 - c_t) forget``, normalized to length 1. The training step goes in the opposite direction.
    """

    title: str
    retain: Vector
    forget: Vector
    direction: Vector | None
    cosine: float
    c_t: float


def gradient_plane_data(sources: Sources) -> PanelFigure[Plane] | None:
    """Return the gradients of one trial for each method, at the report nearest to the middle of the trial.

    The result is None if no trial measured the gradients.
    """
    planes = []
    for _, row in shown_trials(sources).iterrows():
        history = sources.table.history_of(str(row["trial_id"]))
        columns = ("step", "grad_norm_retain", "grad_norm_forget", "grad_cosine", "c_t")
        values = np.column_stack([numbers(history, name).to_numpy() for name in columns])
        values = values[np.isfinite(values).all(axis=1) & (values[:, 1:3] >= 0).all(axis=1)]
        if len(values) == 0:
            continue
        away = np.abs(values[:, 0] - 0.5 * values[:, 0].max())
        # If two reports are equally near, use the later one.
        at = int(np.flatnonzero(away == away.min())[-1])
        step, retain, forget, cosine, c_t = (float(value) for value in values[at])
        if str(row["method"]) == "ngdiff" and retain + forget > 0:
            # NGDiff uses this ratio at every step, but reports its mean, which is not the ratio of the mean norms.
            c_t = forget / (retain + forget)
        planes.append(plane(f"{row['method']}, step {number(int(step))}", retain, forget, cosine, c_t))
    planes = planes[:_MOST_METHODS]
    return figure_of(
        planes,
        name="gradient_plane",
        title="The gradients and the direction of each method",
        caption=note("gradient_plane", steps=tuple(item.title for item in planes)),
    )


def plane(title: str, norm_retain: float, norm_forget: float, cosine: float, c_t: float) -> Plane:
    """Return two gradients as vectors, given their norms and cosine. ``c_t`` is the weight of the retain gradient."""
    longest = max(norm_retain, norm_forget) or 1.0
    # Rounding may put a mean of cosines outside [-1, 1].
    cosine = min(max(cosine, -1.0), 1.0)
    rho, phi = norm_retain / longest, norm_forget / longest
    retain, forget = (rho, 0.0), (phi * cosine, phi * math.sqrt(1.0 - cosine**2))
    mixed = (c_t * retain[0] + (1 - c_t) * forget[0], c_t * retain[1] + (1 - c_t) * forget[1])
    length = math.hypot(*mixed)
    direction = (mixed[0] / length, mixed[1] / length) if length > 1e-12 else None
    return Plane(title, retain, forget, direction, cosine, c_t)


def draw_gradient_plane(data: PanelFigure[Plane]) -> Figure:
    """Draw a square panel for each method."""
    with house_style():
        columns = min(3, len(data.panels))
        width = max(3.3 * columns, 6.4)
        figure, grid = plots(data.title, len(data.panels), columns, width=width, height=3.7, more=0.9)
        for axes, item in zip(grid, data.panels, strict=True):
            _plane(axes, item)
        legend_of(figure, grid[0], columns=max(2, columns), size=9)
        return figure


def _plane(axes: Axes, item: Plane) -> None:
    reach = 1.25
    arrows = [(item.retain, OKABE_ITO[0], "g_R, retain gradient"), (item.forget, OKABE_ITO[1], "g_F, forget gradient")]
    for (vector, colour, _), objective in zip(arrows, ("retain", "forget"), strict=True):
        look: dict[str, Any] = {"color": colour, "alpha": 0.12, "linewidth": 0, "zorder": 1}
        if length := math.hypot(*vector):
            # Shade the half of the plane on the vector's side of the origin, as a rectangle larger than the panel.
            x, y = (_FAR * part / length for part in vector)
            axes.fill([y, y + x, x - y, -y], [-x, y - x, y + x, x], **look, label=f"{objective} objective falls")
    if item.direction is not None:
        arrows.append((item.direction, INK, "d, combined direction (length 1)"))
    for vector, colour, name in arrows:
        style: dict[str, Any] = {"color": colour, "lw": 2.0, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 13}
        axes.annotate("", vector, (0, 0), arrowprops={"arrowstyle": "-|>", **style}, zorder=4)
        axes.plot([], [], color=colour, linewidth=2.0, label=name)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axes.axhline(0, color=MUTED, linewidth=0.6, zorder=1.5)
    axes.axvline(0, color=MUTED, linewidth=0.6, zorder=1.5)
    words = f"cosine {number(item.cosine)}, c_t {number(item.c_t)}"
    axes.set_title(f"{item.title}\n{words}", loc="left", fontsize=9.5)
    axes.set(xlabel="along g_R (longer gradient = 1)", ylabel="across g_R")
