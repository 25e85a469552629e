"""What is raised when data cannot be had or are not what they should be."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 20
"""How many problems of one file are told; the rest are counted."""


class DataError(ValueError):
    """Data are missing or malformed. ``problems`` are plain sentences for the user, the message all of them."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


def shortened(problems: Sequence[str], where: str) -> list[str]:
    """The first 20 problems and how many more there are of ``where``."""
    rest = len(problems) - SHOWN
    return [*problems[:SHOWN], *([f"{where}: and {rest} more rows with problems"] if rest > 0 else [])]
