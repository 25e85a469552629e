"""Where the seconds of a command go: named parts of its work, each timed where it happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_BEGAN = time.perf_counter()
_seconds: dict[str, float] = {}
_open: list[str] = []


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the time inside under ``name``; what is within another phase counts there alone."""
    if _open:
        yield
        return
    started = time.perf_counter()
    _open.append(name)
    try:
        yield
    finally:
        _open.remove(name)
        _seconds[name] = _seconds.get(name, 0.0) + time.perf_counter() - started


def seconds_by_phase() -> dict[str, float]:
    """Since the command began, in the order in which the phases first ended; ``other`` is what is in none of them."""
    whole = time.perf_counter() - _BEGAN
    return {**_seconds, "other (imports, options)": max(0.0, whole - sum(_seconds.values())), "in all": whole}
