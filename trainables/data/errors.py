"""Errors about data that are missing or malformed."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 20
"""The most problems per file in a message; the rest are counted."""


class DataError(ValueError):
    """Data are missing or malformed. ``problems`` are messages for the user; the error's text holds all of them."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


def shortened(problems: Sequence[str], where: str) -> list[str]:
    """Return the first 20 problems, and how many more ``where`` has."""
    rest = len(problems) - SHOWN
    return [*problems[:SHOWN], *([f"{where}: and {rest} more rows with problems"] if rest > 0 else [])]
