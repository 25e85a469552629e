"""A user's constraint on a metric, such as ``utility>=0.7``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_FORM = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[^\s%]+)\s*(?P<percent>%?)\s*")

_WORDS = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}


def all_met(verdicts: Iterable[bool | None]) -> bool | None:
    """Return False if any verdict is False, True if all are True, and None otherwise (or without verdicts)."""
    distinct_verdicts = set(verdicts)
    if False in distinct_verdicts:
        return False
    return True if distinct_verdicts == {True} else None


class ConstraintError(ValueError):
    """A constraint cannot be parsed. The message is for the user."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A bound on a metric. A relative bound is a fraction of the metric's value for the target model."""

    name: str
    sign: str
    bound: float
    relative: bool = False

    def __str__(self) -> str:
        """Return the text that :func:`parse_constraint` reads."""
        bound = f"{100 * self.bound:g}%" if self.relative else f"{self.bound:g}"
        return f"{self.name}{self.sign}{bound}"

    def format_bound(self) -> str:
        """Return the bound in words, such as ``at least 70% of the target's value``."""
        bound = f"{self.bound:.0%} of the target's value" if self.relative else f"{self.bound:g}"
        return f"{_WORDS[self.sign]} {bound}"

    def violation(self, value: float | None, baseline: float | None = None) -> float | None:
        """Return by how much a value violates the bound: at most 0 if the bound is met, None if a number is missing.

        A relative bound needs ``baseline``, the metric's value for the target model. None and NaN count as missing.
        """
        if value is None or math.isnan(value):
            return None
        bound = self.bound
        if self.relative:
            if baseline is None or math.isnan(baseline):
                return None
            bound *= baseline
        excess = bound - value if self.sign.startswith(">") else value - bound
        is_strict = len(self.sign) == 1
        # A value equal to a strict bound violates the bound.
        return math.ulp(0.0) if is_strict and excess == 0.0 else excess

    def met(self, value: float | None, baseline: float | None = None) -> bool | None:
        """Return whether a value meets the bound; None if a number is missing.

        A relative bound needs ``baseline``, the metric's value for the target model. With a baseline of 0, return None.
        """
        # With a baseline of 0, every relative bound is 0, so meeting the bound says nothing about the result.
        if self.relative and baseline == 0.0:
            return None
        violation = self.violation(value, baseline)
        return None if violation is None else violation <= 0.0


def parse_constraint(text: str, *, flag: str = "--constraint", noun: str = "metric") -> Constraint:
    """Parse a constraint such as ``utility>=0.7``. A percentage is relative to the metric's value for the target model.

    Args:
        flag, noun: the option, and what its constraints are about, for the error message.

    Raises:
        ConstraintError: the text is not a metric, a sign and a finite number.
    """
    if (match := _FORM.fullmatch(text)) is not None:
        try:
            number = float(match["number"])
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            relative = bool(match["percent"])
            bound = number / 100 if relative else number
            return Constraint(match["name"], match["sign"], bound, relative=relative)
    raise ConstraintError(
        f"{flag} '{text}': expected a {noun}, a sign (>=, <=, > or <) and a number or percentage, such as "
        "utility>=0.7 or utility>=70% (70% of the target's value)"
    )
