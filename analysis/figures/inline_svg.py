"""A drawn figure as part of a page: in the page's colours, light or dark, and without ids that clash."""

from __future__ import annotations

import html
import re

from analysis.figures.style import GRID, INK, MUTED, OKABE_ITO, PAPER, SHADE

_PAGE_COLOURS = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", SHADE: "shade"} | {
    colour: f"hue-{i}" for i, colour in enumerate(OKABE_ITO)
}


def inline_svg(document: str, *, prefix: str, description: str) -> str:
    """The ``<svg>`` element of a figure's SVG document, to stand in HTML.

    The colours become CSS variables (``--ink``, ``--muted``, ``--grid``, ``--paper``, ``--shade``, ``--hue-0``...).
    Every id gets ``prefix``, so that several figures can stand on one page; links of points (``#trial-...``) stay.
    """
    svg = document[document.index("<svg") :]
    # Comments repeat names from the sweep; outlines do not need them.
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    # A hundredth of a point is not seen. Numbers below 1 may be scales and stay.
    svg = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    svg = re.sub(r'href="#(?!trial-)', f'href="#{prefix}-', svg)
    for colour, variable in _PAGE_COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    head, _, body = svg.partition(">")
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{html.escape(description, quote=True)}">{body}'
