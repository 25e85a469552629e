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
    """Points in the order they are joined; all finite. ``name`` is the entry of the legend, "" for none.

    ``look``: ``line`` (joined), ``dots`` (joined, each point marked), ``dashed`` or ``marks`` (not joined).
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
    """The area between two curves over the same ``xs``."""

    name: str
    xs: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    colour: str


@dataclass(frozen=True, slots=True)
class Guide:
    """A thin line across the panel at one value of the axis ``x`` or ``y``, with words at its end."""

    axis: str
    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. A scale is ``linear`` or ``log``; on a log axis every value is positive.

    A linear y axis spans at least ``y_least``. ``x_whole``: x counts, so ticks are whole numbers. ``absent``: values of
    x without a y to draw, marked by a cross on the axis under the name :data:`ABSENT`.
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
    """A colour bar over values from ``low`` to ``high``, logarithmic, for lines coloured by :func:`graded`."""

    label: str
    low: float
    high: float


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class PanelFigure(Generic[P]):
    """A figure of panels of one kind.

    ``name`` is the stem of its files, ``caption`` what a reader must know, worded by figure_captions.j2.
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
    """The figure; None without a panel."""
    found = tuple(panels)
    return PanelFigure(name, title, found, caption, columns, gradation) if found else None


def finite_lines(
    name: str, xs: Iterable[float], ys: Iterable[float], colour: str, *, look: str = "line", marker: str = "o",
    filled: bool = True, positive: bool = False,
) -> tuple[Line, ...]:  # fmt: skip
    """The line through the points that are finite (and positive, for a log axis); () if there are none."""
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
    """A colour and a marker for each name, the same in every figure that is given the same names."""
    return dict(zip(names, zip(itertools.cycle(OKABE_ITO), itertools.cycle(MARKERS), strict=True), strict=False))


def method_colours(table: TrialTable) -> dict[str, str]:
    """The colour of each method of the report, the same in all its figures."""
    return {name: colour for name, (colour, _) in colours_of(table.methods).items()}


def graded(value: float, low: float, high: float) -> str:
    """The colour of a positive value between ``low`` and ``high`` on a logarithmic, colour-blind-safe map."""
    if not (value > 0 and low > 0):
        return INK
    share = 0.5 if high <= low else (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    at, stops = share * (len(GRADES) - 1), range(len(GRADES))
    channels = ([int(grade[i : i + 2], 16) for grade in GRADES] for i in (1, 3, 5))
    return "#" + "".join(f"{round(float(np.interp(at, stops, channel))):02x}" for channel in channels)


GRADES = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#9fbf20")
"""The middle of viridis: its ends are lost on black and on white."""
