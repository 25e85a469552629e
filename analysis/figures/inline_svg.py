"""Convert a drawn figure to SVG for an HTML page, with unique ids and with colours for a light and a dark page."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from analysis.figures.style import GRID, INK, MUTED, OKABE_ITO, PAPER, SHADE

_PAGE_COLOURS = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", SHADE: "shade"} | {
    colour: f"hue-{i}" for i, colour in enumerate(OKABE_ITO)
}


@dataclass(frozen=True, slots=True)
class PointLabel:
    """The label of a point: the model's name with epoch and status, the model's settings, and the model's values."""

    name: str
    settings: str
    values: str


def point_link(anchor: str, epoch: float) -> str:
    """Return the link of a point in a figure: the ``anchor`` of its trial's row, with the epoch if it is known."""
    return f"#{anchor}" if math.isnan(epoch) else f"#{anchor}@{epoch:g}"


def inline_svg(document: str, *, prefix: str, description: str, labels: Mapping[str, PointLabel] | None = None) -> str:
    """Return the ``<svg>`` element of a figure's SVG document, for use in HTML.

    The colours become CSS variables (``--ink``, ``--muted``, ``--grid``, ``--paper``, ``--shade``, ``--hue-0``...).
    Every id starts with ``prefix``, so that ids are unique if a page has several figures. The link of a point
    (:func:`point_link`) leads to the row of the trial. The point's label becomes ``aria-label`` and data attributes.
    """
    svg = document[document.index("<svg") :]
    # Comments repeat names from the sweep, but the text is drawn as outlines.
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    # Round to a hundredth of a point, which is invisible. Numbers below 1 are kept, because they may be scales.
    svg = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    svg = re.sub(r'href="#(?!trial-)', f'href="#{prefix}-', svg)
    svg = re.sub(r'href="(#trial-\d+)(@[^"]*)?"', lambda match: _labelled(match, labels or {}), svg)
    for colour, variable in _PAGE_COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    head, _, body = svg.partition(">")
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{html.escape(description, quote=True)}">{body}'


def _labelled(link: re.Match[str], labels: Mapping[str, PointLabel]) -> str:
    label = labels.get(link[1] + (link[2] or ""))
    if label is None:
        return f'href="{link[1]}"'
    shown = {
        "aria-label": f"{label.name}: {label.settings}; {label.values}",
        "data-name": label.name,
        "data-settings": label.settings,
        "data-values": label.values,
    }
    return " ".join([f'href="{link[1]}"', *(f'{key}="{html.escape(text)}"' for key, text in shown.items())])
