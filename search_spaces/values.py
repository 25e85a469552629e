"""The values of a configuration. Equality is that of Python, except that a boolean never equals a number."""

from __future__ import annotations

import math
from typing import TypeGuard

Value = str | int | float | bool | None


def plain_name(key: str) -> str:
    """Return the name of an option in a configuration: ``beta`` for the key ``npo.beta``."""
    return key.rpartition(".")[2]


def same(left: object, right: object) -> bool:
    """Return whether two values are equal; ``True`` does not equal 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a finite int or float, and not a boolean."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def is_value(value: object) -> bool:
    """Return whether a configuration can contain the value: a text, a finite number, a boolean or None."""
    return value is None or isinstance(value, str | bool) or is_number(value)
