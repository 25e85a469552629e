"""The look of every figure, and saving a figure to files."""

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
"""Distinct under every common colour blindness (Okabe and Ito, 2008). Black is left to the frontier itself, and the
yellow is darkened to be seen on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")

INK, MUTED, GRID, PAPER, SHADE = "#1f2933", "#66727f", "#e3e7eb", "#fefefe", "#eff3f7"
"""Text and frontier; secondary text and guides; grid; background; the dominated region."""

DOTS_PER_INCH = 160
WIDE, NARROW = (10.0, 6.875), (4.4, 5.6)
"""Inches: 1600 x 1100 pixels for a page or a slide, and a figure that is read on a phone."""

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
    # Names from the sweep may contain a dollar sign; they are text, not formulas.
    "text.parse_math": False,
    # Without a fixed salt equal figures would become different SVG files.
    "svg.hashsalt": "figure",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save inside this."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        yield


def plots(
    title: str, count: int, columns: int, *, width: float, height: float, more: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """A titled figure with so many plots, at most ``columns`` in a row; ``width`` of all, ``height`` of a row, inches.

    ``more`` is the height of what stands beside the plots.
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
    """The entries of one of the plots, below all of them."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=columns, fontsize=size)


def save_figure(figure: Figure, folder: Path, name: str) -> str:
    """Write ``name``.png and ``name``.svg into ``folder``, which is made if it is not there; the SVG document.

    Links of its points lead to places of a page: the file, which stands alone, has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = svg_text(figure)
    # The layout, most of the work, is in shares of the figure: it holds for both files.
    figure.set_layout_engine("none")
    picture = io.BytesIO()
    with house_style():
        figure.savefig(picture, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    write_whole(folder / f"{name}.png", picture.getvalue())
    write_whole(folder / f"{name}.svg", re.sub(r"</?a\b[^>]*>\n?", "", document))
    return document


def svg_text(figure: Figure) -> str:
    """The figure as an SVG document, text as outlines: it looks the same where the font is missing."""
    buffer = io.StringIO()
    with house_style():
        # Without these the file would hold the date, and addresses of schemas.
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return buffer.getvalue()
