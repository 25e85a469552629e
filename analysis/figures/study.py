"""Figures of a study over seeds, from numbers computed elsewhere: attainment, anytime and tuning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.figures.panels import Band, Guide, Line, Panel, PanelFigure, finite_line
from analysis.figures.style import MUTED, OKABE_ITO, house_style
from analysis.frontier.trade_off import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """The edge of what at least ``runs`` of an arm's runs attain: ``points`` (k, 2), costs in [0, 1]; k may be 0."""

    runs: int
    points: Floats


@dataclass(frozen=True, slots=True, eq=False)
class AttainmentData:
    """Empirical attainment of two arms over runs, as costs in [0, 1], smaller better.

    ``surfaces`` per arm, from the one that a single run attains to the one that all do. ``boxes``, shape (k, 4), are
    (left, bottom, right, top); ``differences``, shape (k,), the share of the first arm's runs that attain a box minus
    the share of the second's, in [-1, 1].
    """

    title: str
    axes: tuple[str, str]
    surfaces: Mapping[str, Sequence[Surface]]
    boxes: Floats
    differences: Floats
    name: str = "attainment"
    caption: str = (
        "Thick: attained by half of the runs; dashed: by one, and by all (no line where all attain nothing). Colour: "
        "the arm that attains a place in more of its runs, the stronger the more of them. A run is the front of one "
        "seed; AutoLR from several starts has one for each start and seed."
    )


def anytime_figure(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> PanelFigure | None:
    """Hypervolume over compute, a line of steps per arm, each (seconds, hypervolumes); None without a point."""
    lines = []
    for i, (arm, (times, volumes)) in enumerate(curves.items()):
        pairs = [(float(s), float(h)) for s, h in zip(times, volumes, strict=True)]
        pairs = [pair for pair in pairs if np.isfinite(pair).all()]
        if not pairs:
            continue
        # Nothing is attained before the first trial ends; between two trials the hypervolume stays what it was.
        stairs = [(0.0, 0.0)]
        for seconds, volume in pairs:
            stairs += [(seconds, stairs[-1][1]), (seconds, volume)]
        xs, ys = zip(*stairs, strict=True)
        lines.append(Line(arm, xs, ys, OKABE_ITO[i % len(OKABE_ITO)]))
    if not lines:
        return None
    panel = Panel("", "training and evaluation (trial-seconds)", "hypervolume (share of the box)", tuple(lines))
    caption = (
        "The hypervolume of all trials of an arm, its seeds and settings together, that had ended after so many "
        "seconds of training and evaluation; failed trials are charged. In the order in which the trials ended: a "
        "grid runs its rates as listed, so where its curve rises says nothing about a search."
    )
    return PanelFigure("anytime_hypervolume", "Hypervolume over compute spent", caption, (panel,), columns=1)


def tuning_figure(
    picks: Sequence[float], expected: Sequence[float], *, auto: float, charge: float, equals: float,
    band: tuple[Sequence[float], Sequence[float]] | None = None,
) -> PanelFigure:  # fmt: skip
    """The expected hypervolume of the best of n rates, its band if known, and AutoLR, charged ``charge`` runs.

    ``equals`` is the n at which the curve reaches AutoLR; where it never does it is infinite and no line is drawn.
    AutoLR below what a single rate gives is said to be so.
    """
    xs, ys = tuple(map(float, picks)), tuple(map(float, expected))
    ends = (min(xs, default=1.0), max([charge, *xs]))
    line = finite_line("best of n fixed rates, expected", xs, ys, OKABE_ITO[0], look="dots")
    lines = (
        *((line,) if line else ()),
        Line("AutoLR", ends, (auto, auto), OKABE_ITO[1], "dashed"),
        Line("AutoLR, at what it is charged", (charge,), (auto,), OKABE_ITO[1], "marks", "D"),
    )
    bands: tuple[Band, ...] = ()
    if band is not None:
        low, high = (tuple(map(float, edge)) for edge in band)
        bands = (Band("band of the fixed rates", xs, low, high, OKABE_ITO[0]),)
    below = bool(ys) and auto < ys[0]
    label = "n* < 1: below a single rate" if below else f"n* = {equals:.3g}"
    guides = (Guide("x", equals, label),) if np.isfinite(equals) else ()
    panel = Panel(
        "", "n, learning rates tried (runs)", "hypervolume (share of the box)", lines, bands, guides, x_whole=True
    )
    caption = "Exact expectation over all subsets of n of the rates tried; AutoLR is charged for its probes."
    return PanelFigure(
        "tuning_curve", "How many rates must a person try to equal AutoLR?", caption, (panel,), columns=1
    )


def draw_attainment(data: AttainmentData) -> Figure:
    """The median and extreme attainment of both arms, and beside it where either attains more often."""
    with house_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.6, 5.2), layout="constrained")
        left, right = figure.subplots(1, 2).tolist()
        for i, (arm, surfaces) in enumerate(data.surfaces.items()):
            _surfaces(left, arm, surfaces, OKABE_ITO[i])
        left.set_title("attained by one, half and all runs", loc="left", fontsize=10.5)
        _differences(right, data)
        right.set_title("attained in more runs by", loc="left", fontsize=10.5)
        for axes in (left, right):
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
            axes.set_aspect("equal")
            axes.set_xlabel(f"\u2190 better    {data.axes[0]}, cost from 0 to 1")
            axes.set_ylabel(f"\u2190 better    {data.axes[1]}, cost from 0 to 1")
        handles, names = right.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower left", ncols=2)
        figure.suptitle(data.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        return figure


def _surfaces(axes: Axes, arm: str, surfaces: Sequence[Surface], colour: str) -> None:
    """What one run, half of the runs and all of them attain, as far as there is anything."""
    # What all runs attain may be nothing; what most of them attain is then still not what all do.
    known = [surface for surface in surfaces if len(surface.points)]
    middle = (max((surface.runs for surface in surfaces), default=0) + 1) // 2
    for surface in {item.runs: item for item in [*surfaces[:1], *surfaces[-1:]] if len(item.points)}.values():
        _stairs(axes, surface, colour, 0.9, (0, (3, 2)))
    for surface in known:
        if surface.runs == middle:
            _stairs(axes, surface, colour, 2.0, "-")


def _stairs(axes: Axes, surface: Surface, colour: str, width: float, look: Any) -> None:
    points = surface.points[np.argsort(surface.points[:, 0], kind="stable")]
    xs = np.concatenate([[points[0, 0]], points[:, 0], [1.0]])
    ys = np.concatenate([[1.0], points[:, 1], [points[-1, 1]]])
    axes.step(xs, ys, where="post", color=colour, linewidth=width, linestyle=look)


def _differences(axes: Axes, data: AttainmentData) -> None:
    from matplotlib.patches import Rectangle

    for i, arm in enumerate(data.surfaces):
        axes.add_patch(Rectangle((2, 2), 0, 0, color=OKABE_ITO[i], label=arm))
    boxes = np.asarray(data.boxes, dtype=np.float64).reshape(-1, 4).clip(0.0, 1.0)
    for (left, bottom, right, top), difference in zip(boxes.tolist(), data.differences.tolist(), strict=True):
        if difference:
            colour = OKABE_ITO[0 if difference > 0 else 1]
            strength = 0.1 + 0.8 * min(abs(difference), 1.0)
            size = (right - left, top - bottom)
            axes.add_patch(Rectangle((left, bottom), *size, facecolor=colour, alpha=strength, linewidth=0))
    if not np.any(data.differences):
        axes.text(0.5, 0.5, "no difference", ha="center", color=MUTED)
