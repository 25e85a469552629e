"""Save a figure as PNG and SVG, and convert its SVG for an HTML page."""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.figures.style import DOTS_PER_INCH, GRID, INK, MUTED, OKABE_ITO, PAPER, SHADE, house_style
from search_spaces.common.durable import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE_COLOURS = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", SHADE: "shade"} | {
    colour: f"hue-{i}" for i, colour in enumerate(OKABE_ITO)
}


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
    # The links of points work only in the report page.
    write_atomically(folder / f"{name}.svg", re.sub(r"</?a\b[^>]*>\n?", "", document))
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


@dataclass(frozen=True, slots=True)
class PointLabel:
    """The label of a point. ``name`` is the name of the model (trial, epoch) followed by the trial's status."""

    name: str
    settings: str
    values: str


def point_link(anchor: str, epoch: float) -> str:
    """Return the link of a point: the anchor of the trial and, if known, the epoch, such as ``#trial-7@3``."""
    return f"#{anchor}" if math.isnan(epoch) else f"#{anchor}@{epoch:g}"


def inline_svg(document: str, *, prefix: str, description: str, labels: Mapping[str, PointLabel] | None = None) -> str:
    """Return the ``<svg>`` element of an SVG document, for use in HTML.

    Colours become CSS variables, such as ``--ink`` or ``--hue-0``. Every id starts with ``prefix``, so that ids are
    unique on a page. A point links to the row of its trial. The labels, keyed by :func:`point_link`, become the
    attributes ``aria-label`` and ``data-*`` of these links.
    """
    svg = document[document.index("<svg") :]
    # Comments are removed, because they repeat names from the sweep.
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    # Coordinates are rounded to 0.01 points, which is invisible. Numbers below 1 are kept, because they may be scales.
    svg = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    svg = re.sub(r'href="#(?!trial-)', f'href="#{prefix}-', svg)
    svg = re.sub(r'href="(#trial-\d+)(@[^"]*)?"', lambda match: _link_attributes(match, labels or {}), svg)
    for colour, variable in _PAGE_COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    head, _, body = svg.partition(">")
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{html.escape(description, quote=True)}">{body}'


def _link_attributes(link: re.Match[str], labels: Mapping[str, PointLabel]) -> str:
    trial, epoch = link[1], link[2] or ""
    href = f'href="{trial}"'
    label = labels.get(trial + epoch)
    if label is None:
        return href
    attributes = {
        "aria-label": f"{label.name}: {label.settings}; {label.values}",
        "data-name": label.name,
        "data-settings": label.settings,
        "data-values": label.values,
    }
    return " ".join([href, *(f'{key}="{html.escape(text)}"' for key, text in attributes.items())])
