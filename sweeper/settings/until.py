"""The stopping rule of ``--until``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

PLATEAU = "plateau"
NEVER = "none"


class UntilError(ValueError):
    """``--until`` cannot be parsed."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """A rule that ends the sweep if the last ``trials`` trials increased the hypervolume by at most ``growth``."""

    trials: int = 10
    growth: float = 0.001

    def is_reached(self, trace: Sequence[float]) -> bool:
        """Return whether the rule ends the sweep. ``trace`` contains the hypervolume after each trial."""
        if len(trace) <= self.trials or trace[-1] == 0.0:
            return False
        return trace[-1] - trace[-1 - self.trials] <= self.growth


def parse_until(text: str | None) -> Plateau | None:
    """Parse ``plateau``, ``plateau:TRIALS`` or ``plateau:TRIALS:GROWTH``. Return None for ``none``, "" or None.

    Raises:
        UntilError: the text has another format.
    """
    if text in (None, "", NEVER):
        return None
    name, *numbers = str(text).split(":")
    plateau = Plateau()
    try:
        if len(numbers) > 0:
            plateau = replace(plateau, trials=int(numbers[0]))
        if len(numbers) > 1:
            plateau = replace(plateau, growth=float(numbers[1]))
    except ValueError:
        plateau = Plateau(trials=0)  # reported below
    is_in_range = plateau.trials >= 1 and 0.0 <= plateau.growth < math.inf
    if name != PLATEAU or len(numbers) > 2 or not is_in_range:
        raise UntilError(
            f"--until '{text}': expected none, or plateau:TRIALS:GROWTH, such as plateau:10:0.001 (end the sweep "
            "when the last 10 trials have increased the hypervolume by at most 0.001)"
        )
    return plateau
