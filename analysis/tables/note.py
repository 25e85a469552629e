"""Notes: facts that weaken or explain a result. Templates turn the facts into text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A fact to report beside a result.

    Attributes:
        code: the name of the macro in analysis/report/templates/note.j2 that renders the note as text.
        facts: the names and values of the macro's arguments; all values are hashable.
        source: the sweep, table or task that the note is about; "" if there is no single source.
    """

    code: str
    facts: tuple[tuple[str, object], ...] = ()
    source: str = ""


def note(code: str, **facts: object) -> Note:
    """Create a note from the name of its template macro and the macro's arguments."""
    return Note(code, tuple(facts.items()))
