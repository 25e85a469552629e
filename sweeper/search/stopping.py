"""End a sweep early if the frontier has stopped growing or if the epoch or time budget is used up."""

from __future__ import annotations

import math
import time
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


@dataclass(frozen=True, slots=True)
class End:
    """The reason why a sweep ended before all its trials had run, and the option with which ``resume`` continues it."""

    because: str
    further: str = ""


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


@dataclass(kw_only=True)
class Stopping:
    """The limits of a sweep. After a limit is reached, no new trial starts. ``deadline`` is in monotonic-clock seconds.

    ``reached`` is the limit that ended this run of the sweep. ``reached`` stays set even if running trials increase the
    hypervolume again, because Tune has then ended its search.
    """

    plateau: Plateau | None = None
    epoch_budget: int | None = None
    deadline: float | None = None
    reached: End | None = None

    @property
    def is_out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def epochs_left(self, trained: float) -> float | None:
        """Return the epochs left in the budget after ``trained`` epochs, or None without a budget."""
        return None if self.epoch_budget is None else max(0.0, self.epoch_budget - trained)

    def end(self, *, trained: float, trace: Sequence[float]) -> End | None:
        """Return the limit reached after ``trained`` epochs and with the hypervolumes in ``trace``, or None."""
        if self.epoch_budget is not None and trained >= self.epoch_budget:
            return End(f"the budget of {self.epoch_budget} epochs ({trained:g} trained)", "--epoch-budget EPOCHS")
        if (plateau := self.plateau) is not None and plateau.is_reached(trace):
            return End(
                f"a plateau (the hypervolume has not grown by more than {plateau.growth:g} in {plateau.trials} trials)",
                f"--until {NEVER}",
            )
        return None
