"""A fact that weakens or explains a result, without its wording."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A fact to report beside a result.

    Attributes:
        code: the macro in analysis/report/templates/note.j2 that renders the fact as text.
        facts: the arguments of this macro, by name; hashable.
        source: the sweep, table or problem that the note is about; "" if the note is about all of them.
    """

    code: str
    facts: tuple[tuple[str, object], ...] = ()
    source: str = ""


def note(code: str, **facts: object) -> Note:
    """Return the note with these facts."""
    return Note(code, tuple(facts.items()))
