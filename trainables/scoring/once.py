"""Values that are computed when they are first looked up, and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

V = TypeVar("V")


class Once(dict[str, V]):
    """Values by name, each from ``compute`` when first looked up; ``known`` are there already.

    ``name in values`` and iteration are about those that have been looked up.
    """

    def __init__(self, compute: Callable[[str], V], known: Mapping[str, V] | None = None) -> None:
        super().__init__(known or {})
        self._compute = compute

    def __missing__(self, name: str) -> V:
        self[name] = found = self._compute(name)
        return found
