"""A table of a report, ready to be written out on a page, in a terminal or as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table of words and numbers already rounded; the first column is text, the others numbers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
