"""A user's constraint on results, such as ``utility>=0.7``. Results that violate the constraint are not accepted."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_FORM = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[^\s%]+)\s*(?P<percent>%?)\s*")

_WORDS = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}


def all_met(verdicts: Iterable[bool | None]) -> bool | None:
    """Return False if any verdict is False; True if there are verdicts and all are True; otherwise None."""
    found = set(verdicts)
    return False if False in found else None if None in found or not found else True


class ConstraintError(ValueError):
    """The constraint cannot be parsed; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """The constraint ``name SIGN bound``, where SIGN is ``>=``, ``<=``, ``>`` or ``<``. If ``relative`` is true, the
    bound is a share of the target model's value."""

    name: str
    sign: str
    bound: float
    relative: bool = False

    def __str__(self) -> str:
        """Return the constraint in the form that :func:`parse_constraint` reads."""
        return (
            f"{self.name}{self.sign}{100 * self.bound:g}%" if self.relative else f"{self.name}{self.sign}{self.bound:g}"
        )

    def words(self) -> str:
        """Return the bound in words: ``at least 70% of the target`` or ``below 0.1``."""
        bound = f"{self.bound:.0%} of the target" if self.relative else f"{self.bound:g}"
        return f"{_WORDS[self.sign]} {bound}"

    def violation(self, value: float | None, baseline: float | None = None) -> float | None:
        """Return by how much ``value`` violates the bound: 0 or less if the bound is met, None if ``value`` is missing.

        ``baseline`` is the target model's value. If the bound is relative and ``baseline`` is missing, the result is
        None. If ``value`` equals a strict bound, the violation is the smallest positive number.
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
        """Return whether ``value`` meets the bound; None if a value is missing, or if a relative bound's baseline is 0.

        If the baseline is 0, every relative bound is 0, so meeting the bound says nothing about the result. A search
        then uses :meth:`violation` instead.
        """
        if self.relative and baseline == 0.0:
            return None
        missed = self.violation(value, baseline)
        return None if missed is None else missed <= 0.0


def contradictions(given: Iterable[Constraint]) -> list[str]:
    """Return a message for each pair of constraints that no value can meet at the same time."""
    constraints = tuple(given)
    least, most = ([item for item in constraints if item.sign.startswith(way)] for way in "><")
    return [
        f"constraints {low} and {high} contradict each other: no value of {low.name} meets both constraints"
        for low, high in itertools.product(least, most)
        if (low.name, low.relative) == (high.name, high.relative)
        and (low.bound > high.bound or (low.bound == high.bound and min(len(low.sign), len(high.sign)) == 1))
    ]


def parse_constraint(text: str) -> Constraint:
    """Parse ``METRIC>=NUMBER`` (or ``<=``, ``>``, ``<``). A bound such as ``70%`` is relative to the target model.

    Raises:
        ConstraintError: the text does not have this form, or the number is not finite.
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
        f"constraint '{text}': expected a metric, a sign (>=, <=, > or <) and a number or percentage, such as "
        "utility>=0.7 or utility>=70% (70% of the target's value)"
    )
