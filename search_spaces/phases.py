"""Measure how the seconds of a command are divided among named phases of its work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_BEGAN = time.perf_counter()
_seconds: dict[str, float] = {}
_open: list[str] = []


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the time of the block under ``name``; phases inside another phase count as part of it."""
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
    """Return the seconds since the command started, in the order in which phases first ended; ``other`` is the rest."""
    whole = time.perf_counter() - _BEGAN
    return {**_seconds, "other (imports, options)": max(0.0, whole - sum(_seconds.values())), "in all": whole}
