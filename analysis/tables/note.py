"""Notes: facts that weaken or explain a result. Templates turn the facts into text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A fact to report beside a result.

    Attributes:
        code: the name of the macro in analysis/report/templates/note.j2 that renders the note as text.
        facts: the names and values of the macro's arguments; all values are hashable.
        source: the sweep, table or problem (model and data set) that the note is about; "" if the note is not about a
            single source.
    """

    code: str
    facts: tuple[tuple[str, object], ...] = ()
    source: str = ""


def note(code: str, **facts: object) -> Note:
    """Create a note. ``code`` names the template macro that renders the note; ``facts`` are the macro's arguments."""
    return Note(code, tuple(facts.items()))
