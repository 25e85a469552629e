"""A dictionary that computes a value when it is first looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LazyDict(dict[K, V]):
    """A dictionary whose values are computed by ``compute(key)`` when they are first looked up.

    ``key in values``, ``get`` and iteration only find values that were already looked up.
    """

    def __init__(self, compute: Callable[[K], V]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: K) -> V:
        self[key] = found = self._compute(key)
        return found
