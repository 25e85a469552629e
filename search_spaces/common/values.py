"""The values of configurations and table cells, and their form in JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TypeGuard

Value = str | int | float | bool | None


def plain_name(key: str) -> str:
    """Return the name of an option in a configuration, such as ``beta`` for the key ``npo.beta``."""
    return key.rpartition(".")[2]


def same(left: object, right: object) -> bool:
    """Return whether two values are equal. ``True`` does not equal 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def is_one_of(value: object, choices: Iterable[object]) -> bool:
    """Return whether a value is the :func:`same` as one of the choices."""
    return any(same(value, choice) for choice in choices)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite number. A boolean is not a number."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def as_float(value: object) -> float:
    """Convert a table cell to a number. Return NaN if the cell is empty or a text."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def json_text(content: object, *, indent: int | None = None) -> str:
    """Return a value as JSON. NaN and infinities, which JSON does not have, become null."""
    return json.dumps(_finite(content), indent=indent, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
