"""The error for missing or malformed data."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 20
"""The maximum number of problems that a message lists per file. Further problems are only counted."""


class DataError(ValueError):
    """Data are missing or malformed. ``problems`` has one message per problem; the error's text has all messages."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


def shortened(problems: Sequence[str], where: str) -> list[str]:
    """Return the first 20 problems. If there are more, add a line with ``where`` and the number of further problems."""
    rest = len(problems) - SHOWN
    return [*problems[:SHOWN], *([f"{where}: and {rest} more rows with problems"] if rest > 0 else [])]
