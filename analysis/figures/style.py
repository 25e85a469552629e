"""How every figure looks, and how a drawn figure becomes a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def png_bytes(figure: Figure) -> bytes:
    """The figure as PNG."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def svg_text(figure: Figure) -> str:
    """The figure as an SVG document, text as outlines: it looks the same where the font is missing."""
    buffer = io.StringIO()
    with house_style():
        # Without these the file would hold the date, and addresses of schemas.
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return buffer.getvalue()
