"""The exception that reports all problems with the given options."""

from __future__ import annotations

from collections.abc import Sequence


class Problems(Exception):
    """All problems with the given options. Raised before any work starts."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        # Several checks may report the same problem, with and without the file and line of the value.
        found = dict.fromkeys(problems)
        self.problems = tuple(text for text in found if not any(other.endswith(f": {text}") for other in found))
        super().__init__("; ".join(self.problems))


def refuse(problems: Sequence[str]) -> None:
    """Raise :class:`Problems` if there are any problems."""
    if problems:
        raise Problems(problems)
