"""Draw the frontier figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.figures.pareto import ParetoData
from analysis.figures.style import INK, MUTED, PAPER, SHADE, apply_scale, house_style
from analysis.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (10.0, 6.875)
"""The size in inches, which is 1600 x 1100 pixels."""
_LABEL_WIDTH = 27
"""The maximum number of letters per line in the legend entry of the chosen model."""
_MAX_VECTOR_POINTS = 10_000
"""With more points, the SVG has an image of them instead of a shape per point, which would make tens of megabytes."""
_UNFINISHED_MARKERS = {"stopped": "+", "diverged": "x", "failed": "1"}


def draw_pareto(data: ParetoData, *, subtitle: str, notes: Sequence[str]) -> Figure:
    """Draw the frontier figure."""
    with house_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        apply_scale(axes, "x", data.x.scale, *data.x.limits)
        apply_scale(axes, "y", data.y.scale, *data.y.limits)
        # The order of the calls is the order of the legend. The zorder determines what is drawn on top.
        _draw_models(axes, data)
        _draw_landmarks(axes, data)
        if data.staircase:
            xs, ys = zip(*data.staircase, strict=True)
            axes.plot(xs, ys, color=INK, linewidth=1.4, zorder=2.5, label="attained frontier", solid_joinstyle="miter")
            corner_x, corner_y = data.corner
            axes.fill([*xs, corner_x], [*ys, corner_y], color=SHADE, linewidth=0, zorder=0.5, label="dominated")
        for series in data.unfinished:
            mark: dict[str, Any] = {"marker": _UNFINISHED_MARKERS[series.name], "color": MUTED, "zorder": 3}
            axes.scatter(series.points["x"], series.points["y"], s=38, linewidths=1.2, label=series.name, **mark)
        _draw_guesses(axes, data)
        _draw_texts(figure, axes, data, subtitle, notes)
        return figure


def _draw_models(axes: Axes, data: ParetoData) -> None:
    """Draw the models on the frontier in full colours, and other models in pale colours."""
    is_large = sum(len(series.points) for series in data.methods) > _MAX_VECTOR_POINTS
    for series in data.methods:
        points, colour, marker = series.points, series.colour, series.marker
        # Results of other programs are drawn as four-pointed stars.
        if series.external:
            star: dict[str, Any] = {"marker": (4, 1, 0), "s": 110, "color": colour, "edgecolors": INK}
            star |= {"linewidths": 0.7, "zorder": 4, "rasterized": is_large, "clip_on": False}
            axes.scatter(points["x"], points["y"], **star, label=series.name)
            continue
        pale: dict[str, Any] = {"s": 30, "alpha": 0.5, "linewidths": 0, "zorder": 3.5, "rasterized": is_large}
        full: dict[str, Any] = {"s": 68, "edgecolors": INK, "linewidths": 0.9, "zorder": 4}
        for on_front, style in ((False, pale), (True, full)):
            for filled in (True, False):
                subset = points[(points["on_front"] == on_front) & (points["filled"] == filled)]
                if filled:
                    fill: dict[str, Any] = {"color": colour}
                else:  # An outline in the method's colour, which is thicker on the frontier.
                    fill = {"facecolors": PAPER, "edgecolors": colour, "linewidths": 2.0 if on_front else 1.2}
                axes.scatter(subset["x"], subset["y"], marker=marker, clip_on=False, **(style | fill))
        axes.scatter([], [], marker=marker, s=50, color=colour, label=series.name)
    thin: dict[str, Any] = {"color": MUTED, "linewidth": 0.6, "alpha": 0.45, "zorder": 2.2}
    for index, path in enumerate(data.paths):
        xs, ys = zip(*path, strict=True)
        # All paths share one legend entry.
        axes.plot(xs, ys, **thin, label="epochs of a trial" if index == 0 else None)
    if data.both_policies:
        axes.scatter([], [], marker="o", s=50, color=MUTED, label="filled: AutoLR")
        axes.scatter([], [], marker="o", s=50, facecolors=PAPER, edgecolors=MUTED, label="hollow: fixed lr")


def _draw_landmarks(axes: Axes, data: ParetoData) -> None:
    """Mark the target and the chosen model."""
    if data.baseline is not None:
        x, y = data.baseline
        style: dict[str, Any] = {"marker": "*", "s": 190, "color": PAPER, "edgecolors": INK, "linewidths": 1.2}
        axes.scatter([x], [y], **style, zorder=5, label="target (before unlearning)")
    if data.highlight is None:
        return
    role = "recommended" if data.highlight.recommended else "chosen, but not recommended"
    texts = (f"{role}: {data.highlight.model.name}", data.highlight.model.settings)
    label = "\n".join(textwrap.fill(text, _LABEL_WIDTH) for text in texts)
    ring: dict[str, Any] = {"s": 260, "facecolors": "none", "edgecolors": INK, "linewidths": 1.3, "clip_on": False}
    axes.scatter(*data.highlight.position, **ring, zorder=5, label=label)


def _draw_guesses(axes: Axes, data: ParetoData) -> None:
    style: dict[str, Any] = {"color": MUTED, "linestyle": (0, (5, 4)), "linewidth": 1.1, "zorder": 2}
    guesses = [(axes.axvline, data.x.guess), (axes.axhline, data.y.guess)]
    lines = [(draw, guess) for draw, guess in guesses if guess is not None]
    for index, (draw, guess) in enumerate(lines):
        draw(guess, **style, label=f"random-guess loss, ln|V| = {number(guess)}" if index == 0 else None)


def _draw_texts(figure: Figure, axes: Axes, data: ParetoData, subtitle: str, notes: Sequence[str]) -> None:
    # An arrow points to the better side. The label of the y axis is rotated, so a left arrow points down.
    x_label, y_label = (
        f"\u2190 better    {axis.label}" if axis.low_is_better else f"{axis.label}    better \u2192"
        for axis in (data.x, data.y)
    )
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.set_title(data.title, loc="left", fontsize=14, fontweight="bold", pad=29)
    coordinates: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 10), "textcoords": "offset points"}
    axes.annotate(subtitle, (0, 1), **coordinates, color=MUTED, fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    if notes:
        figure.supxlabel("\n".join(notes), x=0.012, ha="left", fontsize=8.5, color=MUTED)
