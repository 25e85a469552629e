"""Measure how long each named phase of a command takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_BEGAN = time.perf_counter()
_seconds: dict[str, float] = {}
_open: list[str] = []


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Add the block's duration to the phase ``name``. A nested phase counts as part of the outer phase."""
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
    """Return the seconds of each phase, of all other work, and in total.

    The phases are listed in the order in which they ended for the first time.
    """
    whole = time.perf_counter() - _BEGAN
    return {**_seconds, "other (imports, options)": max(0.0, whole - sum(_seconds.values())), "in all": whole}
