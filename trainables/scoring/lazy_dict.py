"""A dictionary that computes values at their first lookup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

V = TypeVar("V")


class LazyDict(dict[str, V]):
    """Values by name, computed by ``compute`` at their first lookup, except those in ``known``.

    ``name in values`` and iteration cover only values that were looked up.
    """

    def __init__(self, compute: Callable[[str], V], known: Mapping[str, V] | None = None) -> None:
        super().__init__(known or {})
        self._compute = compute

    def __missing__(self, name: str) -> V:
        self[name] = found = self._compute(name)
        return found
