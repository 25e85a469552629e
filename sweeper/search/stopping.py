"""When a sweep ends before all its trials have run: the front has stopped growing, or the epoch budget is spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PLATEAU = "plateau"
NEVER = "none"


class UntilError(ValueError):
    """``--until`` cannot be parsed; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """The hypervolume, a share of the objectives' box, has grown by at most ``growth`` in ``trials`` trials."""

    trials: int = 10
    growth: float = 0.001

    def is_reached(self, trace: Sequence[float]) -> bool:
        """``trace`` has the hypervolume after each ended trial; an empty front is not a plateau."""
        if len(trace) <= self.trials or trace[-1] == 0.0:
            return False
        return trace[-1] - trace[-1 - self.trials] <= self.growth


@dataclass(frozen=True, slots=True)
class End:
    """Why a sweep ended before all its trials had run, and the option of ``resume`` with which it continues."""

    because: str
    further: str = ""


def parse_until(text: str | None) -> Plateau | None:
    """Parse ``plateau``, ``plateau:TRIALS`` or ``plateau:TRIALS:GROWTH``; None for ``none`` and no text.

    Raises:
        UntilError: the text is anything else.
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
    """Return a sentence for each invalid setting."""
    problems = []
    if epoch_budget is not None and epoch_budget < 1:
        problems.append(f"epoch-budget must be at least 1, got {epoch_budget}")
    try:
        parse_until(until)
    except UntilError as error:
        problems.append(str(error))
    return problems


@dataclass(kw_only=True)
class Stopping:
    """Decide when no new trial starts. Every reported epoch counts, however its trial ends."""

    plateau: Plateau | None = None
    epoch_budget: int | None = None
    _epochs: dict[str, float] = field(default_factory=dict)

    def restore(self, history: Iterable[Mapping[str, object]]) -> None:
        """Count the rows of history.csv, without those of trials reused from other sweeps."""
        for row in history:
            self.reported(str(row["trial_id"]), float(str(row["epoch"])))

    def reported(self, trial_id: str, epoch: float) -> None:
        """Count a trial's epochs; an epoch that a restarted worker repeats does not count twice."""
        if math.isfinite(epoch):
            self._epochs[trial_id] = max(epoch, self._epochs.get(trial_id, 0.0))

    def forget(self, trial_id: str) -> None:
        """Do not count the trial, because it was not trained in this sweep."""
        self._epochs.pop(trial_id, None)

    @property
    def epochs(self) -> float:
        """Epochs trained in all."""
        return sum(self._epochs.values())

    @property
    def epochs_left(self) -> float | None:
        """Epochs left in the budget; None without a budget."""
        return None if self.epoch_budget is None else max(0.0, self.epoch_budget - self.epochs)

    def end(self, trace: Sequence[float]) -> End | None:
        """Return why the sweep ends, given the hypervolumes in ``trace``, or None if it continues."""
        if self.epoch_budget is not None and self.epochs >= self.epoch_budget:
            return End(f"the budget of {self.epoch_budget} epochs ({self.epochs:g} trained)", "--epoch-budget EPOCHS")
        if (plateau := self.plateau) is not None and plateau.is_reached(trace):
            return End(
                f"a plateau (the hypervolume has not grown by more than {plateau.growth:g} in {plateau.trials} trials)",
                f"--until {NEVER}",
            )
        return None
