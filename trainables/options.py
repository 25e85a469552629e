"""The options a method can declare, so that one table drives validation, help texts and result columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """A numeric option of a method: its default and the interval of values (or whole numbers) that make sense."""

    name: str
    default: float
    low: float
    high: float
    description: str
    low_open: bool = False
    whole: bool = False

    def problem(self, value: float) -> str | None:
        """A plain sentence saying what is wrong with ``value``, or None."""
        inside = self.low < value if self.low_open else self.low <= value
        if math.isfinite(value) and inside and value <= self.high:
            return (
                None if not self.whole or value == int(value) else f"{self.name} must be a whole number, got {value:g}"
            )
        if math.isinf(self.high):
            expected = f"{'greater than' if self.low_open else 'at least'} {self.low:g}"
        else:
            expected = f"{'in ]' if self.low_open else 'in ['}{self.low:g}, {self.high:g}]"
        return f"{self.name} must be {expected}, got {value:g}"


def defaults(options: Iterable[Option]) -> dict[str, float]:
    """The default of every option, by name."""
    return {option.name: option.default for option in options}
