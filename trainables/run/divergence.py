"""When a run counts as diverged: a loss or gradient that is no number any more."""

from __future__ import annotations

import math


class Diverged(Exception):
    """A loss or gradient became NaN or infinite, or a distance ran away; the message says which and where."""


def finite(value: float, what: str, when: str) -> float:
    """``value``, or :class:`Diverged` where it is NaN or infinite."""
    if not math.isfinite(value):
        raise Diverged(f"{what} is {value} {when}")
    return value
