"""The data of a figure made of panels, and the function that draws the figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.figures.style import INK, MARKERS, MUTED, OKABE_ITO, PAPER, apply_scale, house_style, limits_of
from analysis.tables.note import Note
from analysis.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

ABSENT = "no finished trial"
Marker = str | tuple[int, int, int]
"""A marker of matplotlib."""
_COLOUR_RANGE = (0.1, 0.9)
"""The used part of the colour map viridis, as fractions. The ends of the map are hard to see on black or on white."""
_PANEL_HEIGHT, _SQUARE_HEIGHT = 3.0, 3.8
_RIGHT_SHARE = 0.7
"""The label of a vertical guide beyond this share of the panel's width is on the left of the guide."""
_MAX_MARKERS = 60
"""A line with more points than this is drawn without markers."""
_MAX_VECTOR_POINTS = 10_000
"""With more points, the SVG has an image of them instead of a shape per point, which would make tens of megabytes."""
_MARKS: dict[str, dict[str, Any]] = {
    "marks": {"s": 26, "zorder": 3},
    "pale": {"s": 30, "zorder": 2.8, "alpha": 0.5, "clip_on": False},
    "large": {"s": 68, "zorder": 4, "clip_on": False},
    "landmark": {"s": 190, "zorder": 5},
    "ring": {"s": 260, "zorder": 5, "clip_on": False},
}
"""How the markers of each style of line without a line are drawn."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, or markers at the points. All coordinates are finite.

    Attributes:
        name: the legend entry; "" for no entry.
        style: ``line``, ``thin``, ``dots`` (a line with markers) or ``dashed``; or markers only: ``marks``, ``pale``,
            ``large``, ``landmark`` (larger) or ``ring``.
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    colour: str
    style: str = "line"
    marker: Marker = "o"
    filled: bool = True


@dataclass(frozen=True, slots=True)
class Band:
    """A shaded area between two curves. ``opacity`` is between 0 and 1."""

    name: str
    xs: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    colour: str
    opacity: float = 0.18


@dataclass(frozen=True, slots=True)
class Guide:
    """A labelled straight line across the panel: vertical if ``axis`` is ``x``, horizontal if ``axis`` is ``y``."""

    axis: str
    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot.

    Attributes:
        x_scale, y_scale: ``linear`` or ``log``. A log axis shows only positive values.
        x_min_span, y_min_span: the minimum span of a linear axis.
        x_integer: whether the ticks of the x axis are whole numbers.
        y_names: the labels of the positions 0, 1, ... on the y axis, from top to bottom.
        absent: the x values at which no y value was measured. They are drawn as crosses on the x axis.
        square: the limits of both axes of a square panel; None if the panel is not square.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    bands: tuple[Band, ...] = ()
    guides: tuple[Guide, ...] = ()
    x_scale: str = "linear"
    y_scale: str = "linear"
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    x_min_span: float = 0.0
    y_min_span: float = 0.0
    x_integer: bool = False
    y_names: tuple[str, ...] = ()
    absent: tuple[float, ...] = ()
    square: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PanelFigure:
    """A figure that consists of panels.

    Attributes:
        name: the stem of the file names.
        caption: the note that figure_captions.j2 renders as the caption.
        subtitle, notes: further notes, which :func:`draw_panels` receives as text.
        columns: the maximum number of panels side by side.
        size: the width and height in inches, with the legend on the right; None to fit the panels, with the legend
            below.
        rates: the learning rates at the two ends of the colour bar (:func:`log_colour`); None if the figure has no bar.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: Note | None = None
    subtitle: Note | None = None
    notes: tuple[Note, ...] = ()
    columns: int = 2
    size: tuple[float, float] | None = None
    rates: tuple[float, float] | None = None


def figure_of(
    panels: Iterable[Panel | None], *, name: str, title: str, caption: Note, columns: int = 2,
    rates: tuple[float, float] | None = None,
) -> PanelFigure | None:  # fmt: skip
    """Return a figure with the panels that are not None; None if all panels are None."""
    nonempty = tuple(panel for panel in panels if panel is not None)
    return PanelFigure(name, title, nonempty, caption, columns=columns, rates=rates) if nonempty else None


def finite_lines(  # noqa: PLR0913 - the fields of a Line
    name: str, xs: Iterable[float], ys: Iterable[float], colour: str, *, style: str = "line", marker: Marker = "o",
    filled: bool = True,
) -> tuple[Line, ...]:  # fmt: skip
    """Return a line through the points with finite coordinates; () if there are no such points."""
    points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if not points:
        return ()
    finite_xs, finite_ys = zip(*points, strict=True)
    return (Line(name, finite_xs, finite_ys, colour, style, marker, filled),)


def colours_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return a colour and a marker for each name. They repeat if there are many names."""
    looks = zip(itertools.cycle(OKABE_ITO), itertools.cycle(MARKERS), strict=True)
    return dict(zip(names, looks, strict=False))


def log_colour(value: float, low: float, high: float) -> str:
    """Return the colour of a value on a logarithmic colour map from ``low`` to ``high``. All values are positive."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    share = math.log(value / low) / math.log(high / low)
    first, last = _COLOUR_RANGE
    return to_hex(colormaps["viridis"](first + share * (last - first)))


def draw_panels(data: PanelFigure, *, subtitle: str = "", notes: Sequence[str] = ()) -> Figure:
    """Draw the panels, the colour bar and the legend. ``subtitle`` is above the panels and ``notes`` are below them."""
    from matplotlib.figure import Figure

    columns = min(data.columns, len(data.panels))
    rows = math.ceil(len(data.panels) / columns)
    width = 10.0 if columns > 1 else 6.4
    plot_height = min(_SQUARE_HEIGHT, width / columns) if data.panels[0].square else _PANEL_HEIGHT
    height = max(0.9 + 0.34 * len(panel.y_names) if panel.y_names else plot_height for panel in data.panels)
    with house_style():
        figure = Figure(layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        for axes in grid[len(data.panels) :]:
            axes.remove()
        figure.suptitle(data.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        entries: dict[str, Any] = {}
        for axes, panel in zip(grid, data.panels, strict=False):
            _draw_panel(axes, panel)
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(name, handle)
        if data.rates is not None:
            _draw_colour_bar(figure, grid[: len(data.panels)], *data.rates)
        if subtitle:
            figure.axes[0].set_title(subtitle, loc="left", fontsize=10, color=MUTED)
        if notes:
            figure.supxlabel("\n".join(notes), x=0.012, ha="left", fontsize=8.5, color=MUTED)
        if data.size:
            figure.set_size_inches(*data.size)
            figure.legend(list(entries.values()), list(entries), loc="outside right upper", fontsize=9.5)
            return figure
        # At 9 points, a letter is about 0.08 inches wide. The marker and the gaps around a name take 0.6 inches.
        entry_width = 0.08 * max(map(len, entries), default=0) + 0.6
        max_per_row = 4 if columns > 1 else 2
        per_row = max(1, min(max_per_row, int(width / entry_width)))
        figure.set_size_inches(width, rows * height + 0.7 + 0.25 * math.ceil(len(entries) / per_row))
        if entries:
            figure.legend(list(entries.values()), list(entries), loc="outside lower left", ncols=per_row, fontsize=9)
        return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        _draw_line(axes, line)
    for band in panel.bands:
        axes.fill_between(
            band.xs, band.lows, band.highs,
            color=band.colour, alpha=band.opacity, linewidth=0, zorder=1, label=band.name,
        )  # fmt: skip
    if panel.absent:
        axes.scatter(
            panel.absent, [0.0] * len(panel.absent), transform=axes.get_xaxis_transform(), marker="x", color=INK, s=34,
            linewidths=1.4, zorder=5, clip_on=False, label=ABSENT,
        )  # fmt: skip
    xs = [x for line in panel.lines for x in line.xs] + list(panel.absent)
    ys = [y for line in panel.lines for y in line.ys] + [y for band in panel.bands for y in (*band.lows, *band.highs)]
    xs += [guide.value for guide in panel.guides if guide.axis == "x"]
    ys += [guide.value for guide in panel.guides if guide.axis == "y"]
    x_limits = panel.x_limits or limits_of(panel.x_scale, xs, min_span=panel.x_min_span)
    y_limits = panel.y_limits or limits_of(panel.y_scale, ys, min_span=panel.y_min_span)
    apply_scale(axes, "x", panel.x_scale, *x_limits)
    apply_scale(axes, "y", panel.y_scale, *y_limits)
    for i, guide in enumerate(panel.guides):
        _draw_guide(axes, guide, i)
    _label_axis(axes.xaxis, panel.x_label, panel.x_scale, is_integer=panel.x_integer or panel.x_label == "step")
    _label_axis(axes.yaxis, panel.y_label, panel.y_scale, is_integer=False)
    if panel.y_names:
        axes.set_yticks(range(len(panel.y_names)), panel.y_names)
        axes.set_ylim(len(panel.y_names) - 0.4, -0.6)
    if panel.square:
        axes.set(xlim=panel.square, ylim=panel.square, aspect="equal")
    axes.set_title(panel.title, loc="left", fontsize=10.5)


def _label_axis(axis: Axis, label: str, scale: str, *, is_integer: bool) -> None:
    """Set the label of an axis. For a linear axis, also set the ticks."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    if scale == "linear":
        axis.set_major_locator(MaxNLocator(5, integer=is_integer, steps=[1, 2, 2.5, 5, 10]))
        ticks = ScalarFormatter()
        ticks.set_powerlimits((-3, 5))
        axis.set_major_formatter(ticks)
    axis.set_label_text(label if scale == "linear" else f"{label}, log scale")


def _draw_line(axes: Axes, line: Line) -> None:
    face = line.colour if line.filled else PAPER
    if line.style in _MARKS:
        look: dict[str, Any] = {
            "marker": line.marker,
            "linewidths": 1.2,
            "rasterized": len(line.xs) > _MAX_VECTOR_POINTS,
            **_MARKS[line.style],
        }
        if line.marker in ("x", "+", "1"):  # these markers have no face
            look["color"] = line.colour
        else:
            look["facecolors"] = "none" if line.style == "ring" else face
            look["edgecolors"] = INK if line.style == "large" and line.filled else line.colour
        axes.scatter(line.xs, line.ys, label=line.name, **look)
        return
    is_thin = line.style == "thin"
    has_markers = (line.style == "dots" and len(line.xs) <= _MAX_MARKERS) or len(line.xs) == 1
    dashes: Any = (0, (4, 2)) if line.style == "dashed" else "-"
    axes.plot(
        line.xs, line.ys, color=line.colour, linestyle=dashes, linewidth=0.6 if is_thin else 1.6,
        alpha=0.45 if is_thin else 1.0, marker=line.marker if has_markers else None, markerfacecolor=face, markersize=4,
        zorder=2.5, label=line.name,
    )  # fmt: skip


def _draw_guide(axes: Axes, guide: Guide, index: int) -> None:
    draw = axes.axvline if guide.axis == "x" else axes.axhline
    draw(guide.value, color=MUTED, linestyle=(0, (5, 4)), linewidth=1.0, zorder=2)
    if guide.axis == "y":
        position, offset, side = (0.01, guide.value), (0, -2), "left"
        coordinates: dict[str, Any] = {"xycoords": ("axes fraction", "data")}
    else:
        share, _ = (axes.transScale + axes.transLimits).transform((guide.value, 1.0))
        side = "right" if share > _RIGHT_SHARE else "left"  # the label stays inside the panel
        position, offset = (guide.value, 1.0), (3 if side == "left" else -3, -11 * (index % 3))
        coordinates = {"xycoords": ("data", "axes fraction")}
    # A white background keeps the label readable if a curve passes behind it.
    axes.annotate(
        guide.label, position, xytext=offset, textcoords="offset points", color=MUTED, fontsize=8.5, zorder=4,
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.8}, ha=side, va="top", **coordinates,
    )  # fmt: skip


def _draw_colour_bar(figure: Figure, axes: list[Axes], low: float, high: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm
    from matplotlib.ticker import FuncFormatter, NullLocator

    colours = ListedColormap([log_colour(low * (high / low) ** (i / 39), low, high) for i in range(40)])
    bar = figure.colorbar(
        ScalarMappable(LogNorm(low, high), colours), ax=axes, label="learning rate, log scale", aspect=30, pad=0.015
    )
    bar.set_ticks([low, math.sqrt(low * high), high])
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value))))
