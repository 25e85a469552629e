"""Render the text of figures: the caption of any figure, and the subtitle and notes of the frontier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from analysis.figures.draw_pareto import draw_pareto
from analysis.figures.pareto import ParetoData
from analysis.report.render import note_text, say, sentence
from analysis.tables.note import Note

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def caption(facts: Note | None) -> str:
    """Render a caption, starting with the source, with its macro in figure_captions.j2; "" if ``facts`` is None."""
    if facts is None:
        return ""
    text = say(f"figure_captions.{facts.code}", **dict(facts.facts))
    return f"{facts.source}. {text}" if facts.source else text


def draw_frontier(data: ParetoData, *, links: Mapping[str, str] | None = None) -> Figure:
    """Draw the frontier figure with subtitle and notes."""
    subtitle = say("figure_frontier.subtitle", counts=data.counts).replace(" · ", "  \u00b7  ")
    notes = [f"{sentence(note_text(note))}." for note in data.notes]
    return draw_pareto(data, subtitle=subtitle, notes=notes, links=links or {})
