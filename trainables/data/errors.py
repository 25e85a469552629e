"""The error for missing or malformed data."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 20
"""The maximum number of problems that an error message lists per file."""


class DataError(ValueError):
    """Data are missing or malformed. The attribute ``problems`` has one message per problem."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


def shortened(problems: Sequence[str], source: str) -> list[str]:
    """Return the first 20 problems. If there are more, add a line with the number of problems that are not shown."""
    omitted_count = len(problems) - SHOWN
    shown = list(problems[:SHOWN])
    if omitted_count > 0:
        shown.append(f"{source}: {omitted_count} more rows have problems")
    return shown
