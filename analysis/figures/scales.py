"""Choose the scale of an axis, its limits and its ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from analysis.tables.trade_off import Objective
from analysis.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_SPAN = 0.1
"""The minimum span of an axis with losses (nats), scores or hypervolumes (shares)."""
_DECADE = 10.0
_SYMLOG_SPAN = 1e4


def scale_of(objective: Objective, values: Iterable[float], *, loss: bool) -> str:
    """Return the scale of an axis: ``linear``, ``log`` or ``symlog``.

    A loss to be minimized is 0.01 for memorized data and 3 for a broken model. All good trials would overlap on a
    linear axis, so the axis is ``log`` or ``symlog``. Scores in [0, 1] and losses to be maximized have a linear axis.
    """
    known = [value for value in values if math.isfinite(value)]
    positive = [value for value in known if value > 0]
    if objective.direction != "min" or not loss or scale_for(positive) == "linear":
        return "linear"
    return "log" if len(positive) == len(known) else "symlog"


def scale_for(values: Iterable[float]) -> str:
    """Return ``log`` if all values are positive and span at least a factor of ten, else ``linear``."""
    known = [value for value in values if math.isfinite(value)]
    return "log" if known and min(known) > 0 and max(known) >= _DECADE * min(known) else "linear"


def limits_of(scale: str, values: Iterable[float], *, least: float = 0.0) -> tuple[float, float]:
    """Return limits around the values with a margin, on the scale of the axis.

    A linear axis spans at least ``least``, because otherwise a negligible difference of 0.008 would fill the plot.
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if scale == "log":
        air = max((high / low) ** 0.07, 1.1)
        return low / air, high * air
    if scale == "symlog":
        return min(low, 0.0), high * 1.4
    air = max(0.05 * (high - low) or 0.05 * abs(high) or 0.05, (least - (high - low)) / 2)
    # If the values are near 0, the axis does not extend far below 0.
    near_zero = low >= 0 and low - air < 0 and high + air < least
    return (-0.03 * least, 0.97 * least) if near_zero else (low - air, high + air)


def tick_numbers(scale: str, low: float, high: float) -> tuple[float, ...]:
    """Return the ticks of a log or symlog axis between ``low`` and ``high``.

    Ticks are 1, 2 and 5 times each power of ten. If these are too many, ticks are 1 and 3 times, or only 1 times.
    """
    start = low if scale == "log" else high / _SYMLOG_SPAN
    decades = range(math.floor(math.log10(start)), math.ceil(math.log10(high)) + 1)
    spanned = math.log10(high / start)
    steps = (1.0, 2.0, 5.0) if spanned <= 2 else (1.0, 3.0) if spanned <= 4 else (1.0,)
    ticks = [step * _DECADE**decade for decade in decades for step in steps]
    shown = [tick for tick in ticks if max(low, start) <= tick <= high]
    return tuple([0.0, *shown] if scale == "symlog" else shown)


def apply_scale(axes: Axes, which: Literal["x", "y"], scale: str, low: float, high: float) -> None:
    """Set the scale, the limits and the ticks of one axis of a matplotlib plot. Tick labels are plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    set_scale, set_limits = (axes.set_xscale, axes.set_xlim) if which == "x" else (axes.set_yscale, axes.set_ylim)
    if scale != "linear":
        set_scale(scale, **({"linthresh": high / _SYMLOG_SPAN} if scale == "symlog" else {}))
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_locator(FixedLocator(list(tick_numbers(scale, low, high))))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(float(f"{value:g}"))))
    set_limits(low, high)
