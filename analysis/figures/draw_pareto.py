"""Draw the frontier figure from its content."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.figures.pareto import ParetoData
from analysis.figures.style import (
    INK,
    MUTED,
    PAPER,
    SHADE,
    apply_scale,
    house_style,
    place_beside_line,
    place_label,
    places_in,
)
from analysis.figures.svg import point_link
from analysis.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (10.0, 6.875)
"""The size in inches, which is 1600 x 1100 pixels."""
_LABEL_WIDTH = 52
"""The maximum number of letters per line of the label of a point."""
_UNFINISHED_MARKERS = {"stopped": "+", "diverged": "x", "failed": "1"}


def draw_pareto(data: ParetoData, *, subtitle: str, notes: Sequence[str], links: Mapping[str, str]) -> Figure:
    """Draw the frontier figure.

    ``subtitle`` and ``notes`` are the counts and the notes in ``data`` as text. ``links`` maps trial ids to anchors; in
    an SVG, a point links to the anchor of its trial.
    """
    with house_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        apply_scale(axes, "x", data.x.scale, *data.x.limits)
        apply_scale(axes, "y", data.y.scale, *data.y.limits)
        # The calls are in the order of the legend; the zorder determines what is drawn on top.
        _trials(axes, data, links)
        _landmarks(axes, data)
        if data.staircase:
            xs, ys = zip(*data.staircase, strict=True)
            axes.plot(xs, ys, color=INK, linewidth=1.4, zorder=2.5, label="attained frontier", solid_joinstyle="miter")
            polygon = [*xs, data.corner[0]], [*ys, data.corner[1]]
            axes.fill(*polygon, color=SHADE, linewidth=0, zorder=0.5, label="dominated")
        for series in data.unfinished:
            look = {"s": 38, "marker": _UNFINISHED_MARKERS[series.name], "color": MUTED, "linewidths": 1.2, "zorder": 3}
            _scatter(axes, series.points, links, label=series.name, **look)
        _guesses(axes, data)
        _words(figure, axes, data, subtitle, notes)
        return figure


def _trials(axes: Axes, data: ParetoData, links: Mapping[str, str]) -> None:
    """Draw dominated models in pale colours. Models on the frontier are larger, outlined and in full colours."""
    for series in data.methods:
        points, colour, marker = series.points, series.colour, series.marker
        # Results of other programs are four-pointed stars for all methods.
        if series.external:
            star: dict[str, Any] = {"marker": (4, 1, 0), "s": 110, "color": colour, "edgecolors": INK}
            _scatter(axes, points, links, **star, linewidths=0.7, zorder=4, clip_on=False, label=series.name)
            continue
        pale: dict[str, Any] = {"s": 30, "alpha": 0.5, "linewidths": 0, "zorder": 3.5}
        full: dict[str, Any] = {"s": 68, "edgecolors": INK, "linewidths": 0.9, "zorder": 4}
        for on_front, look in ((False, pale), (True, full)):
            for filled in (True, False):
                shown = points[(points["on_front"] == on_front) & (points["filled"] == filled)]
                # A hollow marker has an outline in the method's colour, which is thicker on the frontier.
                empty = {"facecolors": PAPER, "edgecolors": colour, "linewidths": 2.0 if on_front else 1.2}
                given = look | ({"color": colour} | look if filled else empty)
                _scatter(axes, shown, links, marker=marker, clip_on=False, **given)
        axes.scatter([], [], marker=marker, s=50, color=colour, label=series.name)
    for i, path in enumerate(data.paths):
        thin: dict[str, Any] = {"color": MUTED, "linewidth": 0.6, "alpha": 0.45, "zorder": 2.2}
        axes.plot(*zip(*path, strict=True), **thin, label=None if i else "epochs of a trial")
    if data.both_policies:
        axes.scatter([], [], marker="o", s=50, color=MUTED, label="filled: AutoLR")
        axes.scatter([], [], marker="o", s=50, facecolors=PAPER, edgecolors=MUTED, label="hollow: fixed lr")
    colour = next((series.colour for series in data.methods if series.name == "gdiff"), MUTED)
    for i, line in enumerate(data.sweeps_over_c):
        look = {"color": colour, "linewidth": 1.2, "alpha": 0.75, "zorder": 3}
        axes.plot(*zip(*line, strict=True), **look, label=None if i else "gdiff over c")


def _scatter(axes: Axes, points: pd.DataFrame, links: Mapping[str, str], **look: Any) -> None:
    drawn = axes.scatter(points["x"], points["y"], **look)
    if links:
        models = zip(points["trial_id"], points["epoch"], strict=True)
        drawn.set_urls([links.get(trial) and point_link(links[trial], epoch) for trial, epoch in models])


def _landmarks(axes: Axes, data: ParetoData) -> None:
    """Mark the target before unlearning, and the model that the sweep's answer names."""
    if data.baseline is not None:
        x, y = data.baseline
        look: dict[str, Any] = {"marker": "*", "s": 190, "color": PAPER, "edgecolors": INK, "linewidths": 1.2}
        axes.scatter([x], [y], **look, zorder=5, label="target (before unlearning)")
    if data.chosen is None:
        return
    ring: dict[str, Any] = {"s": 260, "facecolors": "none", "edgecolors": INK, "linewidths": 1.3, "clip_on": False}
    (x, y), role = data.chosen.at, "recommended" if data.chosen.recommended else "closest to the thresholds"
    axes.scatter([x], [y], **ring, zorder=5)
    settings = textwrap.fill(data.chosen.model.settings, _LABEL_WIDTH)
    _call_out(axes, data, f"{role}: {data.chosen.model.name}\n{settings}")


def _call_out(axes: Axes, data: ParetoData, label: str) -> None:
    """Add a label to the chosen model, at the position where the label hides the fewest points and lines."""
    assert data.chosen is not None
    width, height = _extent(axes, label.split("\n"))
    (at,) = places_in(axes, [data.chosen.at])
    points, line = places_in(axes, data.positions), places_in(axes, data.staircase)
    box = place_label(at, width, height, points=points, line=line)
    right = box.left >= at[0]
    drawn = axes.annotate(
        label, data.chosen.at, xytext=(box.left if right else box.right, (box.bottom + box.top) / 2),
        textcoords="axes fraction", ha="left" if right else "right", va="center", fontsize=9, zorder=6,
        bbox={"boxstyle": "round,pad=0.35", "facecolor": PAPER, "edgecolor": MUTED, "linewidth": 0.7, "alpha": 0.92},
        arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.8, "shrinkB": 8},
    )  # fmt: skip
    # A long label must not shrink the plot.
    drawn.set_in_layout(False)


def _guesses(axes: Axes, data: ParetoData) -> None:
    """Mark the loss of a random guess on each axis whose limits include this loss."""
    line: dict[str, Any] = {"color": MUTED, "linestyle": (0, (5, 4)), "linewidth": 1.1, "zorder": 2}
    if (guess := data.x.guess) is not None:
        axes.axvline(guess, **line)
        place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "right", "va": "bottom"}
        axes.text(guess, 1.005, f"random guess, ln|V| = {number(guess)}", color=MUTED, fontsize=9, **place)
    if (guess := data.y.guess) is not None:
        axes.axhline(guess, **line)
        label = f"random guess {number(guess)}"
        (_, up), *points = places_in(axes, [(data.x.limits[0], guess), *data.positions])
        side, edge = place_beside_line(up, *_extent(axes, [label]), points)
        place = {"transform": axes.get_yaxis_transform(), "ha": side, "va": edge}
        axes.text(0.995 if side == "right" else 0.005, guess, label, color=MUTED, fontsize=9, **place)


def _extent(axes: Axes, lines: Sequence[str]) -> tuple[float, float]:
    """Return the approximate width and height of lines of text, as shares of the plot's width and height."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    across, up = figure.get_size_inches()
    return (0.08 * max(map(len, lines)) + 0.15) / (0.75 * across), (0.17 * len(lines) + 0.15) / (0.7 * up)


def _words(figure: Figure, axes: Axes, data: ParetoData, subtitle: str, notes: Sequence[str]) -> None:
    # An arrow points to the better side. The label of the y axis is rotated, so a left arrow points down.
    across, up = (
        f"\u2190 better    {axis.label}" if axis.low_is_better else f"{axis.label}    better \u2192"
        for axis in (data.x, data.y)
    )
    axes.set(xlabel=across, ylabel=up)
    axes.set_title(data.title, loc="left", fontsize=14, fontweight="bold", pad=44)
    # The subtitle is above the label of the random guess and below the title.
    axes.annotate(
        subtitle, (0, 1), xycoords="axes fraction", xytext=(0, 25), textcoords="offset points", color=MUTED,
        fontsize=10,
    )  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    if notes:
        figure.supxlabel("\n".join(notes), x=0.012, ha="left", fontsize=8.5, color=MUTED)
