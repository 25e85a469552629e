"""A dictionary that computes a value when it is first looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

V = TypeVar("V")


class LazyDict(dict[str, V]):
    """A dictionary that starts with ``known``. When another value is first looked up, ``compute`` computes the value.

    ``name in values`` and iteration only include known values and values that were already looked up.
    """

    def __init__(self, compute: Callable[[str], V], known: Mapping[str, V] | None = None) -> None:
        super().__init__(known or {})
        self._compute = compute

    def __missing__(self, name: str) -> V:
        self[name] = found = self._compute(name)
        return found
