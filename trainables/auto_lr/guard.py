"""What a rule that keeps the model does besides choosing a rate: anneal it, and begin anew where a number is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Memory = Mapping[str, float]
"""What a rule remembers between updates: JSON-able, replaced and never mutated, saved with the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What holds from one choice of the rate to the next.

    A run under a rule that has one is interpolated at its end, too (:mod:`trainables.run.interpolation`), unless its
    spec says otherwise.

    Attributes:
        annealed: over this last part of the run the rate falls linearly to 0.
        cut: beginning anew after a loss or gradient that is not finite divides the rate by this.
    """

    annealed: float
    cut: float

    def share(self, step: int, steps: int) -> float:
        """The share of the chosen rate that step ``step`` of ``steps``, counted from 1, is taken at."""
        return min(1.0, (1.0 - (step - 1) / steps) / self.annealed)
