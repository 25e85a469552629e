"""The content of a figure made of panels: lines, bands and guides, before anything is drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from analysis.figures.style import INK, MARKERS, OKABE_ITO
from analysis.tables.note import Note
from analysis.tables.trial_table import TrialTable

ABSENT = "no finished trial"


@dataclass(frozen=True, slots=True)
class Line:
    """A line or a series of marks, given by finite points. ``name`` is the legend entry, or "" if there is none.

    ``look`` is ``line``, ``dots`` (a line with a marker at each point), ``dashed`` or ``marks`` (markers only).
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    colour: str
    look: str = "line"
    marker: str = "o"
    filled: bool = True


@dataclass(frozen=True, slots=True)
class Band:
    """A shaded area between two curves that have the same x values ``xs``."""

    name: str
    xs: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    colour: str


@dataclass(frozen=True, slots=True)
class Guide:
    """A thin line across the panel at one value of the axis ``x`` or ``y``, with a label at the end of the line."""

    axis: str
    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. A scale is ``linear`` or ``log``; all values on a log axis are positive.

    A linear y axis spans at least ``y_least``. If ``x_whole`` is true, x is a count and its ticks are whole numbers.
    ``absent`` has the x values without a y value, drawn as crosses on the axis with the legend entry :data:`ABSENT`.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    bands: tuple[Band, ...] = ()
    guides: tuple[Guide, ...] = ()
    x_scale: str = "linear"
    y_scale: str = "linear"
    y_limits: tuple[float, float] | None = None
    y_least: float = 0.0
    x_whole: bool = False
    absent: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Gradation:
    """A logarithmic colour bar from ``low`` to ``high``, for lines coloured by :func:`graded`."""

    label: str
    low: float
    high: float


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class PanelFigure(Generic[P]):
    """A figure that consists of panels of the same type.

    ``name`` is the stem of the file names. figure_captions.j2 renders the note ``caption`` below the figure.
    """

    name: str
    title: str
    panels: tuple[P, ...]
    caption: Note | None = None
    columns: int = 2
    gradation: Gradation | None = None


def figure_of(
    panels: Iterable[P], *, name: str, title: str, caption: Note, columns: int = 2, gradation: Gradation | None = None
) -> PanelFigure[P] | None:
    """Return a figure with these panels; None if there are no panels."""
    found = tuple(panels)
    return PanelFigure(name, title, found, caption, columns, gradation) if found else None


def finite_lines(
    name: str, xs: Iterable[float], ys: Iterable[float], colour: str, *, look: str = "line", marker: str = "o",
    filled: bool = True, positive: bool = False,
) -> tuple[Line, ...]:  # fmt: skip
    """Return the line through all finite points; () if there are none. If ``positive``, y must also be above 0."""
    pairs = [
        (float(x), float(y))
        for x, y in zip(xs, ys, strict=True)
        if math.isfinite(x) and math.isfinite(y) and (y > 0 or not positive)
    ]
    if not pairs:
        return ()
    known_xs, known_ys = zip(*pairs, strict=True)
    return (Line(name, known_xs, known_ys, colour, look, marker, filled),)


def colours_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return a colour and a marker for each name. The same names always have the same colours."""
    return dict(zip(names, zip(itertools.cycle(OKABE_ITO), itertools.cycle(MARKERS), strict=True), strict=False))


def method_colours(table: TrialTable) -> dict[str, str]:
    """Return the colour of each method of the report; it is the same in all figures."""
    return {name: colour for name, (colour, _) in colours_of(table.methods).items()}


def graded(value: float, low: float, high: float) -> str:
    """Return the colour of a positive value on a logarithmic colour map from ``low`` to ``high``."""
    if not (value > 0 and low > 0):
        return INK
    share = 0.5 if high <= low else (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    at, stops = share * (len(GRADES) - 1), range(len(GRADES))
    channels = ([int(grade[i : i + 2], 16) for grade in GRADES] for i in (1, 3, 5))
    return "#" + "".join(f"{round(float(np.interp(at, stops, channel))):02x}" for channel in channels)


GRADES = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#9fbf20")
"""The middle of the colour map viridis, because its ends are hard to see on black and on white."""
