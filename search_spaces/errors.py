"""How this package says no: every problem at once, in sentences for the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from search_spaces.space import Space


class SpaceError(ValueError):
    """A search space that cannot be used; ``problems`` has one plain sentence per mistake, the message has them all.

    ``space`` is what of it could be read all the same, so that its values can be looked at, too.
    """

    def __init__(self, problems: Sequence[str], space: Space | None = None) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.space = space

    def __reduce__(self) -> tuple[type[SpaceError], tuple[tuple[str, ...], Space | None]]:
        return SpaceError, (self.problems, self.space)
