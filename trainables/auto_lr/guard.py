"""What a rule with a safety net does besides choosing a rate: anneal it, and keep the last weights that were good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Memory = Mapping[str, float]
"""What a rule remembers between updates: JSON-able, replaced and never mutated, saved with the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What holds from one choice of the rate to the next.

    Attributes:
        tolerance: nats per token that the retain loss may be above the target's for weights to count as good.
        annealed: over this last part of the run the rate falls linearly to 0.
        cut: going back from a loss or gradient that is not finite divides the rate by this.
    """

    tolerance: float
    annealed: float
    cut: float

    def share(self, step: int, steps: int) -> float:
        """The share of the chosen rate that step ``step`` of ``steps``, counted from 1, is taken at."""
        return min(1.0, (1.0 - (step - 1) / steps) / self.annealed)


class SafetyNet:
    """A copy in host memory of the last good state of weights, buffers and optimizer.

    Attributes:
        since: the step whose state the copy is, or the one after which it was last put back: going back undoes the
            steps from there on.
    """

    def __init__(self, *, save: Callable[[], Mapping[str, Any]], restore: Callable[[Mapping[str, Any]], None]) -> None:
        self._save, self._restore = save, restore
        self._copy: Mapping[str, Any] = {}
        self.since = 0

    @property
    def begun(self) -> bool:
        """Whether there is a copy."""
        return bool(self._copy)

    def keep(self, step: int) -> None:
        """The present state, after ``step`` steps, is good."""
        self._copy, self.since = self._save(), step

    def go_back(self, step: int) -> int:
        """To the last good state, bit for bit; returns how many steps that undid."""
        self._restore(self._copy)
        undone, self.since = step - self.since, step
        return undone

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"copy": self._copy, "since": self.since}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._copy, self.since = state["copy"], state["since"]
