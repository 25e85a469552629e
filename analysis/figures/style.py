"""Define the style of all figures, and save a figure to files."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.durable import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a800")
"""Colours that are distinct for all common types of colour blindness (Okabe and Ito, 2008). Black is reserved for the
frontier, and yellow is darkened so that it is visible on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")

INK, MUTED, GRID, PAPER, SHADE = "#1f2933", "#66727f", "#e3e7eb", "#fefefe", "#eff3f7"
"""The colours of text and frontier, of secondary text and guides, of grid, background and dominated region."""

DOTS_PER_INCH = 160
WIDE, NARROW = (10.0, 6.875), (4.4, 5.6)
"""Figure sizes in inches: for a page or a slide (1600 x 1100 pixels), and for a phone."""

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
    # Names from the sweep may contain a dollar sign, which must not start a formula.
    "text.parse_math": False,
    # Without a fixed salt, equal figures would give different SVG files.
    "svg.hashsalt": "figure",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the style of the figures while drawing and saving."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        yield


def plots(
    title: str, count: int, columns: int, *, width: float, height: float, more: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """Return a titled figure with ``count`` plots, at most ``columns`` in a row.

    ``width`` is the width of the figure, ``height`` the height of a row of plots, and ``more`` additional height for
    the title and the legend, all in inches.
    """
    from matplotlib.figure import Figure

    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width, rows * height + more), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for axes in grid[count:]:
        axes.remove()
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    return figure, grid[:count]


def legend_of(figure: Figure, axes: Axes, *, columns: int = 2, size: float = 9.5) -> None:
    """Add the legend of one plot below all plots."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=columns, fontsize=size)


def save_figure(figure: Figure, folder: Path, name: str) -> str:
    """Write ``name``.png and ``name``.svg into ``folder``, which is created if needed. Return the SVG document.

    The SVG file has no links, because the links of points only work inside a page.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    folder.mkdir(parents=True, exist_ok=True)
    document = svg_text(figure)
    # The layout is expensive and relative to the size of the figure, so it is computed once for both files.
    figure.set_layout_engine("none")
    figure.dpi = DOTS_PER_INCH
    picture = io.BytesIO()
    with house_style():
        FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})  # type: ignore[no-untyped-call]
    write_whole(folder / f"{name}.png", picture.getvalue())
    write_whole(folder / f"{name}.svg", re.sub(r"</?a\b[^>]*>\n?", "", document))
    return document


def svg_text(figure: Figure) -> str:
    """Return the figure as an SVG document with text as outlines, so that it does not depend on installed fonts."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    with house_style():
        # Not savefig, which draws a figure with a layout twice. By default the file would contain the date and the
        # addresses of schemas.
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=metadata)  # type: ignore[no-untyped-call]
    return buffer.getvalue()
