"""When a sweep ends before all its trials are run: the frontier has stopped growing, or the epochs are spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PLATEAU = "plateau"
NEVER = "none"


class UntilError(ValueError):
    """``--until`` cannot be read; the message is a plain sentence for the user."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """The hypervolume, a share of the objectives' box, has not grown by more than ``growth`` in ``trials`` trials."""

    trials: int = 10
    growth: float = 0.001

    def is_reached(self, trace: Sequence[float]) -> bool:
        """``trace`` has the hypervolume after each trial that has ended; without any frontier there is no plateau."""
        if len(trace) <= self.trials or trace[-1] == 0.0:
            return False
        return trace[-1] - trace[-1 - self.trials] <= self.growth

    def words(self) -> str:
        """As a sentence says it."""
        return f"a plateau (the hypervolume has not grown by more than {self.growth:g} in {self.trials} trials)"


@dataclass(frozen=True, slots=True)
class End:
    """What ended a sweep before all its trials were run, and what ``resume`` must be told to go on all the same."""

    because: str
    further: str = ""


def parse_until(text: str | None) -> Plateau | None:
    """``plateau``, ``plateau:TRIALS`` or ``plateau:TRIALS:GROWTH``; None for ``none`` and nothing.

    Raises:
        UntilError: anything else.
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


def stopping_problems(*, until: str | None, epoch_budget: int | None) -> list[str]:
    """A plain sentence for each of a user's settings by which no sweep can end."""
    found = []
    if epoch_budget is not None and epoch_budget < 1:
        found.append(f"epoch-budget must be at least 1, got {epoch_budget}")
    try:
        parse_until(until)
    except UntilError as error:
        found.append(str(error))
    return found


@dataclass(kw_only=True)
class Stopping:
    """Says when no new trial is to start, and why. Epochs count as reported, whatever becomes of their trials."""

    plateau: Plateau | None = None
    epoch_budget: int | None = None
    _epochs: dict[str, float] = field(default_factory=dict)

    def restore(self, history: Iterable[Mapping[str, object]]) -> None:
        """Begin with the rows of history.csv, without those of trials that were taken over from other sweeps."""
        for row in history:
            self.reported(str(row["trial_id"]), float(str(row["epoch"])))

    def reported(self, trial_id: str, epoch: float) -> None:
        """A trial has been trained so far; what a restarted worker repeats does not count twice."""
        if math.isfinite(epoch):
            self._epochs[trial_id] = max(epoch, self._epochs.get(trial_id, 0.0))

    def forget(self, trial_id: str) -> None:
        """The trial was not trained in this sweep."""
        self._epochs.pop(trial_id, None)

    @property
    def epochs(self) -> float:
        """Epochs trained in all."""
        return sum(self._epochs.values())

    @property
    def epochs_left(self) -> float | None:
        """Of the budget; None without one."""
        return None if self.epoch_budget is None else max(0.0, self.epoch_budget - self.epochs)

    def end(self, trace: Sequence[float]) -> End | None:
        """What ends the sweep, after the hypervolumes in ``trace``; None while nothing does."""
        if self.epoch_budget is not None and self.epochs >= self.epoch_budget:
            return End(f"the budget of {self.epoch_budget} epochs ({self.epochs:g} trained)", "--epoch-budget EPOCHS")
        if self.plateau is not None and self.plateau.is_reached(trace):
            return End(self.plateau.words(), f"--until {NEVER}")
        return None
