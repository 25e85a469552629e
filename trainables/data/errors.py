"""The error for missing or malformed data."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 20
"""The maximum number of reasons that an error message lists per file."""


class DataError(ValueError):
    """Data are missing or malformed. The attribute ``problems`` has one message per problem."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


def shortened(problems: Sequence[str], source: str) -> list[str]:
    """Return one message for each reason, with the first place and the number of further places.

    ``problems`` are messages of the form ``PLACE: REASON``. After 20 reasons, a line counts the remaining problems.
    """
    places_by_reason: dict[str, list[str]] = {}
    for problem in problems:
        place, _, reason = problem.partition(": ")
        places_by_reason.setdefault(reason, []).append(place)
    messages = []
    for reason, (first, *further) in places_by_reason.items():
        places = f"{first} and {len(further)} more" if further else first
        messages.append(f"{places}: {reason}" if reason else places)
    omitted_count = sum(len(places) for places in list(places_by_reason.values())[SHOWN:])
    if omitted_count:
        return [*messages[:SHOWN], f"{source}: {omitted_count} more rows have problems"]
    return messages
