"""The style of all figures: colours, sizes, axes and legends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from analysis.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a800")
"""Colours that are distinct for all common types of colour blindness (Okabe and Ito, 2008). Black is reserved for the
frontier. Yellow is darkened, so that it is visible on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")

INK, MUTED, GRID, PAPER, SHADE = "#1f2933", "#66727f", "#e3e7eb", "#fefefe", "#eff3f7"
"""INK: text and the frontier. MUTED: secondary text and guides. PAPER: the background. SHADE: the dominated region."""

DOTS_PER_INCH = 160

MIN_SPAN = 0.1
"""The minimum span of an axis, in nats for losses and as a share for scores and hypervolumes."""
_DECADE = 10.0

_SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 10.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": PAPER,
    "axes.axisbelow": True,
    "axes.grid": True,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    # A dollar sign in a name from the sweep must not start a formula.
    "text.parse_math": False,
    # With a random salt, the SVG files of equal figures would differ.
    "svg.hashsalt": "figure",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the style of the figures to all figures that are drawn or saved in this context."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        yield


def scale_for(values: Iterable[float]) -> str:
    """Return ``log`` if all values are positive and span at least a factor of ten, else ``linear``."""
    finite = [value for value in values if math.isfinite(value)]
    return "log" if finite and min(finite) > 0 and max(finite) >= _DECADE * min(finite) else "linear"


def limits_of(scale: str, values: Iterable[float], *, min_span: float = 0.0) -> tuple[float, float]:
    """Return the limits of an axis: the range of the values plus a margin.

    A linear axis spans at least ``min_span``, so that a negligible difference does not fill the plot.
    """
    finite = [value for value in values if math.isfinite(value) and (value > 0 or scale != "log")]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    if scale == "log":
        factor = max((high / low) ** 0.07, 1.1)
        return low / factor, high * factor
    span = high - low
    # The span is 0 if all values are equal. The highest value may be 0, too.
    margin = max(0.05 * span or 0.05 * abs(high) or 0.05, (min_span - span) / 2)
    # If all values are small and none is negative, the axis does not extend far below 0.
    is_near_zero = low >= 0 and low - margin < 0 and high + margin < min_span
    return (-0.03 * min_span, 0.97 * min_span) if is_near_zero else (low - margin, high + margin)


def apply_scale(axes: Axes, which: Literal["x", "y"], scale: str, low: float, high: float) -> None:
    """Set the scale and the limits of one axis of a plot. For a logarithmic axis, also set the ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    set_scale, set_limits = (axes.set_xscale, axes.set_xlim) if which == "x" else (axes.set_yscale, axes.set_ylim)
    if scale == "log":
        set_scale(scale, nonpositive="mask")
        axis = axes.xaxis if which == "x" else axes.yaxis
        decades = math.log10(high / low)
        few_ticks = (1, 3) if decades <= 4 else (1,)
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades <= 2 else few_ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(float(f"{value:g}"))))
    set_limits(low, high)
