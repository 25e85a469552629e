"""The protection of the model by a rule: anneal the rate, and restart if a value is not finite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Memory = Mapping[str, float]
"""A rule's memory between updates: JSON-able, saved with the run, replaced rather than mutated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Settings that apply from one choice of the rate to the next.

    Runs under a rule with a guard are also interpolated at their end (:mod:`trainables.run.interpolation`), unless
    their spec says otherwise.

    Attributes:
        annealed: the rate falls linearly to 0 over this last share of the run.
        cut: a restart after a loss or gradient that is not finite divides the rate by this.
    """

    annealed: float
    cut: float

    def share(self, step: int, steps: int) -> float:
        """Return the factor of the chosen rate for step ``step`` of ``steps``, counted from 1."""
        return min(1.0, (1.0 - (step - 1) / steps) / self.annealed)
