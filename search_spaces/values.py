"""What a configuration can hold, and when two values are the same: as in Python, but a boolean is never a number."""

from __future__ import annotations

import math
from typing import TypeGuard

Value = str | int | float | bool | None


def plain_name(key: str) -> str:
    """``beta`` of ``npo.beta``: what an option is called in a configuration."""
    return key.rpartition(".")[2]


def same(left: object, right: object) -> bool:
    """Equality of values; ``True`` is not 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """A finite int or float, and not a boolean."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def is_value(value: object) -> bool:
    """Whether a configuration can hold it: a text, a finite number, a boolean or None."""
    return value is None or isinstance(value, str | bool) or is_number(value)
