"""What is left of a running sweep: trials, and the time they will take at the pace so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from analysis.words import duration
from search_spaces.messages import counted
from sweeper.search.archive import number
from sweeper.search.stopping import Stopping


@dataclass(frozen=True, slots=True)
class Estimate:
    """``trials`` are left at most, and take ``seconds``; None before any has ended."""

    trials: int
    seconds: float | None = None

    def words(self) -> str:
        """``about 7 trials, 3 min 20 s``."""
        time = "" if self.seconds is None else f", {duration(self.seconds)}"
        return f"about {counted(self.trials, 'trial')}{time}"


@dataclass(kw_only=True)
class Pace:
    """Hears of every trial that ends; ``trials`` are asked for, of which ``at_once`` run side by side."""

    trials: int
    stopping: Stopping
    at_once: int = 1
    done: int = 0
    _seconds: list[float] = field(default_factory=list)
    _epochs: list[float] = field(default_factory=list)

    def take_up(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Begin with the rows of trials.csv."""
        for row in rows:
            self.ended(row)

    def ended(self, row: Mapping[str, object]) -> None:
        """A trial is over, here or in the sweep it was taken over from."""
        self.done += 1
        seconds, epochs = number(row.get("wall_seconds")), number(row.get("epochs_done"))
        self._seconds += [seconds] if math.isfinite(seconds) else []
        self._epochs += [epochs] if math.isfinite(epochs) else []

    def estimate(self) -> Estimate:
        """As if the rest were like what has ended."""
        left, budget = max(0, self.trials - self.done), self.stopping.epochs_left
        if budget is not None and sum(self._epochs) > 0:
            left = min(left, math.ceil(budget * len(self._epochs) / sum(self._epochs)))
        if not self._seconds:
            return Estimate(left)
        rounds = left / max(1, min(self.at_once, left))
        return Estimate(left, rounds * sum(self._seconds) / len(self._seconds))
