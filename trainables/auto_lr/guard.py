"""What a rule with a safety net does besides choosing a rate: anneal it, and keep the last weights that were good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Memory = Mapping[str, float]
"""What a rule remembers between updates: JSON-able, replaced and never mutated, saved with the run."""


_HALVINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What holds from one choice of the rate to the next.

    Attributes:
        tolerance: nats per token that the retain loss may be above the target's for weights to count as good.
        home: nats above the target's to which weights are drawn back that end beyond ``tolerance``.
        annealed: over this last part of the run the rate falls linearly to 0.
        cut: going back from a loss or gradient that is not finite divides the rate by this.
    """

    tolerance: float
    home: float
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

    def __init__(
        self,
        *,
        save: Callable[[], Mapping[str, Any]],
        restore: Callable[[Mapping[str, Any]], None],
        between: Callable[[Mapping[str, Any], Mapping[str, Any], float], Mapping[str, Any]],
    ) -> None:
        """``between(a, b, share)`` is ``a`` with its weights moved by ``share`` of the way to ``b``'s."""
        self._save, self._restore, self._between = save, restore, between
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

    def draw_back(self, step: int, is_good: Callable[[], bool]) -> int:
        """From the present state towards the last good one as far as it takes to be good; returns how many steps that
        undid, wholly or in part.

        Bisects the line between the two and stops at the farthest weights that were seen to be good; ``is_good`` is
        asked ``_HALVINGS`` times. The optimizer's state is the last good one's.
        """
        end, good, bad = self._save(), 0.0, 1.0
        for _ in range(_HALVINGS):
            share = (good + bad) / 2.0
            self._restore(self._between(self._copy, end, share))
            good, bad = (share, bad) if is_good() else (good, share)
        undone = self.go_back(step)
        if good:
            self._restore(self._between(self._copy, end, good))
        return undone

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"copy": self._copy, "since": self.since}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._copy, self.since = state["copy"], state["since"]
