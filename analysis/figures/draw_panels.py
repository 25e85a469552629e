"""Draw a figure that consists of panels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.figures.callout import place_beside_line
from analysis.figures.panels import ABSENT, GRADES, Gradation, Guide, Line, Panel, PanelFigure
from analysis.figures.scales import apply_scale, limits_of
from analysis.figures.style import INK, MUTED, PAPER, house_style, plots
from analysis.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (4.6, 3.0)
_GRADES = 40
_DASHES: dict[str, Any] = {"dashed": (0, (4, 2))}
_MARKED = 60
"""A line with more points than this is drawn without markers."""


def draw_panels(data: PanelFigure[Panel]) -> Figure:
    """Draw the figure. A panel is about 4.6 x 3 inches, and narrower if there are at least three columns."""
    with house_style():
        columns = min(data.columns, max(1, len(data.panels)))
        across = min(columns * _PANEL[0], 10.0) if columns > 1 else 6.4
        names = _names(data)
        # Approximate: a letter of 9 points is 0.08 inches wide; the marker and the gap around a name are 0.6 inches.
        widest = 0.08 * max(map(len, names), default=0) + 0.6
        in_a_row = max(1, min(4 if columns > 1 else 2, int(across / widest)))
        more = 0.7 + 0.25 * math.ceil(len(names) / in_a_row)
        figure, grid = plots(data.title, len(data.panels), columns, width=across, height=_PANEL[1], more=more)
        for axes, panel in zip(grid, data.panels, strict=True):
            _panel(axes, panel)
        if data.gradation is not None:
            _colour_bar(figure, grid, data.gradation)
        if names:
            figure.legend(list(names.values()), list(names), loc="outside lower left", ncols=in_a_row, fontsize=9)
        return figure


def _panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    for band in panel.bands:
        axes.fill_between(band.xs, band.lows, band.highs, color=band.colour, alpha=0.18, linewidth=0, zorder=1)
    for line in panel.lines:
        _line(axes, line)
    if panel.absent:
        axes.scatter(
            panel.absent, [0.0] * len(panel.absent), transform=axes.get_xaxis_transform(), marker="x", color=INK, s=34,
            linewidths=1.4, zorder=5, clip_on=False,
        )  # fmt: skip
    guides = [(guide.axis, guide.value) for guide in panel.guides]
    xs = [*(x for line in panel.lines for x in line.xs), *panel.absent, *(at for axis, at in guides if axis == "x")]
    ys = [*(y for line in panel.lines for y in line.ys), *(at for axis, at in guides if axis == "y")]
    ys += [y for band in panel.bands for y in (*band.lows, *band.highs)]
    apply_scale(axes, "x", panel.x_scale, *limits_of(panel.x_scale, xs))
    apply_scale(axes, "y", panel.y_scale, *(panel.y_limits or limits_of(panel.y_scale, ys, least=panel.y_least)))
    for i, guide in enumerate(panel.guides):
        _guide(axes, guide, i, panel)
    for axis, scale, whole in (
        (axes.xaxis, panel.x_scale, panel.x_whole or panel.x_label == "step"),
        (axes.yaxis, panel.y_scale, False),
    ):
        if scale == "linear":
            axis.set_major_locator(MaxNLocator(5, integer=whole, steps=[1, 2, 2.5, 5, 10]))
            ticks = ScalarFormatter()
            ticks.set_powerlimits((-3, 5))
            axis.set_major_formatter(ticks)
    axes.set_title(panel.title, loc="left", fontsize=10.5)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)


def _line(axes: Axes, line: Line) -> None:
    face = line.colour if line.filled else PAPER
    if line.look == "marks":
        crossed = line.marker in "x+1"
        colours: dict[str, Any] = {"color": line.colour} if crossed else {"facecolors": face, "edgecolors": line.colour}
        axes.scatter(line.xs, line.ys, s=26, marker=line.marker, linewidths=1.2, zorder=3, **colours)
        return
    marked = (line.look == "dots" and len(line.xs) <= _MARKED) or len(line.xs) == 1
    axes.plot(
        line.xs, line.ys, color=line.colour, linewidth=1.6, zorder=2.5, linestyle=_DASHES.get(line.look, "-"),
        marker=line.marker if marked else None, markersize=4, markerfacecolor=face,
    )  # fmt: skip


def _guide(axes: Axes, guide: Guide, place_number: int, panel: Panel) -> None:
    draw = axes.axvline if guide.axis == "x" else axes.axhline
    draw(guide.value, color=MUTED, linestyle=(0, (5, 4)), linewidth=1.0, zorder=2)
    if guide.axis == "y":
        positions = [(axes.get_xlim()[0], guide.value)]
        positions += [point for line in panel.lines for point in zip(line.xs, line.ys, strict=True)]
        (_, up), *points = ((float(x), float(y)) for x, y in (axes.transData - axes.transAxes).transform(positions))
        # Approximate, for a panel of 4.6 x 3 inches: a letter takes 0.02 of the width, a line 0.07 of the height.
        right, above = place_beside_line(up, 0.02 * len(guide.label), 0.07, points)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right" if right else "left"}
        place["va"] = "bottom" if above else "top"
        at, off = (0.99 if right else 0.01, guide.value), (0, 2 if above else -2)
    else:
        place = {"xycoords": ("data", "axes fraction"), "ha": "left", "va": "top"}
        at, off = (guide.value, 1.0), (3, -11 * (place_number % 3))
    # A white background keeps the label readable if a curve passes behind it.
    axes.annotate(
        guide.label, at, xytext=off, textcoords="offset points", color=MUTED, fontsize=8.5, zorder=4,
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.8}, **place,
    )  # fmt: skip


def _colour_bar(figure: Figure, axes: list[Axes], gradation: Gradation) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.ticker import FuncFormatter, NullLocator

    # A logarithmic scale needs two different ends.
    low, high = gradation.low, gradation.high if gradation.high > gradation.low else 1.01 * gradation.low
    colours = ScalarMappable(LogNorm(low, high), LinearSegmentedColormap.from_list("grades", list(GRADES), N=_GRADES))
    bar = figure.colorbar(colours, ax=axes, label=gradation.label, aspect=30, pad=0.015)
    # Draw shapes, because a page that may not load images does not show an embedded one.
    if bar.solids is not None:
        bar.solids.set_rasterized(False)
    bar.set_ticks([low, math.sqrt(low * high), high])
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value))))


def _names(data: PanelFigure[Panel]) -> dict[str, Any]:
    """Return a legend handle for each name, in the order in which the names first appear."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: dict[str, Any] = {}
    for panel in data.panels:
        for line in panel.lines:
            marked = line.look in ("marks", "dots")
            handle = Line2D(
                [], [], color=line.colour, linewidth=0 if line.look == "marks" else 1.8, markersize=5.5,
                linestyle=_DASHES.get(line.look, "-"), marker=line.marker if marked else None,
                markerfacecolor=line.colour if line.filled else PAPER,
            )  # fmt: skip
            if line.name:
                handles.setdefault(line.name, handle)
        for band in panel.bands:
            if band.name:
                handles.setdefault(band.name, Patch(color=band.colour or INK, alpha=0.18, linewidth=0))
    if any(panel.absent for panel in data.panels):
        handles[ABSENT] = Line2D([], [], color=INK, linewidth=0, marker="x", markersize=5.5)
    return handles
