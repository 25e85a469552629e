"""The stopping rule of ``--until``: end the sweep when the hypervolume has stopped growing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PLATEAU = "plateau"
NEVER = "none"


class UntilError(ValueError):
    """``--until`` cannot be parsed; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """Ends a sweep if the hypervolume, in [0, 1], has grown by at most ``growth`` in the last ``trials`` trials."""

    trials: int = 10
    growth: float = 0.001

    def is_reached(self, trace: Sequence[float]) -> bool:
        """Return whether the last hypervolumes in ``trace`` form a plateau. An empty frontier is not a plateau."""
        if len(trace) <= self.trials or trace[-1] == 0.0:
            return False
        return trace[-1] - trace[-1 - self.trials] <= self.growth


def parse_until(text: str | None) -> Plateau | None:
    """Parse ``plateau``, ``plateau:TRIALS`` or ``plateau:TRIALS:GROWTH``. Return None for ``none`` or an empty text.

    Raises:
        UntilError: the text has another format.
    """
    if text in (None, "", NEVER):
        return None
    name, *numbers = str(text).split(":")
    try:
        plateau = Plateau(*(kind(number) for kind, number in zip((int, float), numbers, strict=False)))
    except ValueError:
        plateau = Plateau(trials=0)
    if name != PLATEAU or len(numbers) > 2 or plateau.trials < 1 or not 0.0 <= plateau.growth < math.inf:
        raise UntilError(
            f"--until '{text}': expected none, or plateau:TRIALS:GROWTH such as plateau:10:0.001, which ends the "
            "sweep when the hypervolume has not grown by more than 0.001 in 10 trials"
        )
    return plateau
