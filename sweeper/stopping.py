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
        return f"the hypervolume has not grown by more than {self.growth:g} in {self.trials} trials"


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


@dataclass(kw_only=True)
class Stopping:
    """Says when no new trial is to start, and why. Epochs count as reported, whatever becomes of their trials."""

    plateau: Plateau | None = None
    epoch_budget: int | None = None
    _epochs: dict[str, float] = field(default_factory=dict)

    def take_up(self, history: Iterable[Mapping[str, object]], *, but: Iterable[str] = ()) -> None:
        """Begin with the rows of history.csv, ``but`` those of trials that were taken over from other sweeps."""
        elsewhere = set(but)
        for row in history:
            if str(row["trial_id"]) not in elsewhere:
                self.reported(str(row["trial_id"]), float(str(row["epoch"])))

    def reported(self, trial_id: str, epoch: float) -> None:
        """A trial has been trained so far; what a restarted worker repeats does not count twice."""
        self._epochs[trial_id] = max(epoch, self._epochs.get(trial_id, 0.0))

    @property
    def epochs(self) -> float:
        """Epochs trained in all."""
        return sum(self._epochs.values())

    @property
    def epochs_left(self) -> float | None:
        """Of the budget; None without one."""
        return None if self.epoch_budget is None else max(0.0, self.epoch_budget - self.epochs)

    def reason(self, trace: Sequence[float]) -> str | None:
        """Why the sweep is over, after the hypervolumes in ``trace``; None while it is not."""
        if self.epoch_budget is not None and self.epochs >= self.epoch_budget:
            return f"the budget of {self.epoch_budget} epochs is spent ({self.epochs:g} trained)"
        if self.plateau is not None and self.plateau.is_reached(trace):
            return self.plateau.words()
        return None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is left of a sweep: ``trials`` at most, and the time they take, None before any has ended."""

    trials: int
    seconds: float | None = None

    @classmethod
    def of(
        cls, *, left: int, trial_seconds: Sequence[float], at_once: int, stopping: Stopping, per_trial: float | None
    ) -> Estimate:
        """``trial_seconds`` of the trials that have ended; ``per_trial`` is how many epochs one takes, if any ended."""
        if stopping.epochs_left is not None and per_trial:
            left = min(left, math.ceil(stopping.epochs_left / per_trial))
        if not trial_seconds:
            return cls(left)
        mean = sum(trial_seconds) / len(trial_seconds)
        return cls(left, mean * left / max(1, min(at_once, left)))

    def words(self) -> str:
        """``about 7 trials, 3 min``."""
        return f"about {self.trials} trials" + ("" if self.seconds is None else f", {duration(self.seconds)}")


def duration(seconds: float) -> str:
    """In the unit that fits: ``40 s``, ``3 min``, ``2.5 h``, ``4 days``."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{round(seconds / size, 1 if seconds < 10 * size else None):g} {unit}"
    return f"{seconds:.0f} s"
