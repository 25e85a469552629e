"""A threshold a user states, ``utility>=0.7``: which results count as acceptable."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_FORM = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[^\s%]+)\s*(?P<percent>%?)\s*")

_WORDS = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}


def all_met(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all are true: None where one is not known and none is false, and where there is none."""
    found = set(verdicts)
    return False if False in found else None if None in found or not found else True


class ConstraintError(ValueError):
    """The threshold cannot be read; the message is a plain sentence for the user."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """``name >= bound`` or ``name <= bound``, strict or not; with ``relative`` the bound is a share of No-unlearn's."""

    name: str
    sign: str
    bound: float
    relative: bool = False

    def __str__(self) -> str:
        """As :func:`parse_constraint` reads it."""
        return (
            f"{self.name}{self.sign}{100 * self.bound:g}%" if self.relative else f"{self.name}{self.sign}{self.bound:g}"
        )

    def words(self) -> str:
        """``at least 70% of No-unlearn``, ``below 0.1``."""
        bound = f"{self.bound:.0%} of No-unlearn" if self.relative else f"{self.bound:g}"
        return f"{_WORDS[self.sign]} {bound}"

    def violation(self, value: float | None, baseline: float | None = None) -> float | None:
        """By how much ``value`` misses the bound: 0 or below where it is met; None where a number it needs is missing.

        ``baseline`` is the value of the model before unlearning, needed where the bound is a share of it. A strict
        bound that is hit exactly is missed, by the smallest number above 0.
        """
        if value is None or math.isnan(value):
            return None
        bound = self.bound
        if self.relative:
            if baseline is None or math.isnan(baseline):
                return None
            bound *= baseline
        missed = bound - value if self.sign.startswith(">") else value - bound
        return math.ulp(0.0) if missed == 0.0 and len(self.sign) == 1 else missed

    def met(self, value: float | None, baseline: float | None = None) -> bool | None:
        """Whether ``value`` is acceptable; None where a number it needs is missing, and for a share of nothing.

        A search goes on by :meth:`violation` then; that a model keeps its share of 0 shows nothing.
        """
        if self.relative and baseline == 0.0:
            return None
        missed = self.violation(value, baseline)
        return None if missed is None else missed <= 0.0


def contradictions(given: Iterable[Constraint]) -> list[str]:
    """A plain sentence for each two of which no value meets both."""
    asked = tuple(given)
    least, most = ([item for item in asked if item.sign.startswith(way)] for way in "><")
    return [
        f"constraints {low} and {high} contradict each other: no {low.name} meets both"
        for low, high in itertools.product(least, most)
        if (low.name, low.relative) == (high.name, high.relative)
        and (low.bound > high.bound or (low.bound == high.bound and min(len(low.sign), len(high.sign)) == 1))
    ]


def parse_constraint(text: str) -> Constraint:
    """``METRIC>=NUMBER``, also with ``<=``, ``>`` or ``<``; ``METRIC>=70%`` is a share of the No-unlearn model's.

    Raises:
        ConstraintError: not of this form, or the number is not finite.
    """
    if (form := _FORM.fullmatch(text)) is not None:
        try:
            number = float(form["number"])
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            relative = bool(form["percent"])
            return Constraint(form["name"], form["sign"], number / 100 if relative else number, relative)
    raise ConstraintError(
        f"constraint '{text}': expected a metric, >=, <=, > or <, and a number or a share of the No-unlearn model's "
        "value, such as utility>=0.7 or utility>=70%"
    )
