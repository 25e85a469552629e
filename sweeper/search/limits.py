"""End a sweep early if the frontier has stopped growing or a budget is used up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.settings.until import NEVER, Plateau


@dataclass(frozen=True, slots=True)
class End:
    """The reason why a sweep ended early.

    ``further`` is the option with which ``resume`` runs the remaining trials: "" if no option is needed, and None if
    no trials remain that ``resume`` could run.
    """

    because: str
    further: str | None = ""


SEARCH_CLOSED = End("the command, which runs no trials of the search")


@dataclass(kw_only=True)
class Limits:
    """The limits of a sweep. After a limit is reached, no new trial starts.

    ``deadline`` is in seconds of :func:`time.monotonic`. ``reached`` is the limit that ended the search. It is never
    reset, because Ray Tune does not restart an ended search. ``closed`` is the reason why this driver runs no trials of
    the search, even if unfinished trials exist.
    """

    plateau: Plateau | None = None
    epoch_budget: int | None = None
    deadline: float | None = None
    reached: End | None = None
    closed: End | None = None

    @property
    def is_out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def epochs_left(self, trained: float) -> float | None:
        """Return the number of epochs left in the budget, or None without a budget."""
        return None if self.epoch_budget is None else max(0.0, self.epoch_budget - trained)

    def end(self, *, trained: float, trace: Sequence[float]) -> End | None:
        """Return the reached limit (epoch budget or plateau), or None.

        ``trained`` is the number of trained epochs. ``trace`` lists the hypervolume after each ended trial.
        """
        if self.epoch_budget is not None and trained >= self.epoch_budget:
            return End(f"the budget of {self.epoch_budget} epochs", "--epoch-budget EPOCHS")
        if (plateau := self.plateau) is not None and plateau.is_reached(trace):
            return End(
                f"a plateau (the hypervolume has not grown by more than {plateau.growth:g} in {plateau.trials} trials)",
                f"--until {NEVER}",
            )
        return None
