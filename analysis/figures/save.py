"""Save a figure as PNG and SVG."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.figures.style import DOTS_PER_INCH, house_style
from search_spaces.common.durable import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: Figure, folder: Path, name: str) -> str:
    """Write a figure as PNG and SVG into a folder. Return the SVG document."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    folder.mkdir(parents=True, exist_ok=True)
    document = svg_text(figure)
    # The layout is slow to compute and independent of the resolution, so it is computed once for both files.
    figure.set_layout_engine("none")
    figure.dpi = DOTS_PER_INCH
    png = io.BytesIO()
    with house_style():
        FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})  # type: ignore[no-untyped-call]
    write_atomically(folder / f"{name}.png", png.getvalue())
    write_atomically(folder / f"{name}.svg", document)
    return document


def svg_text(figure: Figure) -> str:
    """Return the figure as an SVG document. Text is drawn as outlines, so the document needs no fonts."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    with house_style():
        # savefig is not used, because it draws a figure with a layout twice. Without these settings, the file would
        # contain the date and the addresses of schemas.
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=metadata)  # type: ignore[no-untyped-call]
    return buffer.getvalue()
