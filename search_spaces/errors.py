"""How this package says no: every problem at once, in sentences for the user."""

from __future__ import annotations

from collections.abc import Sequence


class SpaceError(ValueError):
    """A search space that cannot be used; ``problems`` has one plain sentence per mistake, the message has them all."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[SpaceError], tuple[tuple[str, ...]]]:
        return SpaceError, (self.problems,)
