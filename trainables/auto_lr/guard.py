"""What a rule with a safety net watches: the retain loss on a fixed sample, and the last weights at which it was good.

The differences to the first look are paired by example, so that a sample of a few batches resolves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal

Memory = Mapping[str, float]
"""What a rule remembers between updates: JSON-able, replaced and never mutated, saved with the run."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The retain loss on the sample after a step, against the first one.

    Attributes:
        harm: mean over examples of the loss now minus the first (nats per token); ``error`` is its standard error.
        eta: the present rate.
        step, steps, every: the step just taken, those of the whole run, and those between two looks.
    """

    harm: float
    error: float
    eta: float
    step: int
    steps: int
    every: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """``keep``: these weights are good; ``wait``: they are not, yet; ``roll back``: to the last good ones."""

    what: Literal["keep", "wait", "roll back"]
    eta: float


@dataclass(frozen=True, slots=True)
class Guard:
    """The part of a rule that judges what it saw: pure, ``judge(memory, seen) -> (verdict, new_memory)``."""

    judge: Callable[[Memory, Seen], tuple[Verdict, Memory]]


def harm(first: Sequence[float], now: Sequence[float]) -> tuple[float, float]:
    """The mean of the paired differences and its standard error (0 for a single example)."""
    differences = [after - before for before, after in zip(first, now, strict=True)]
    if not all(map(math.isfinite, differences)):
        return math.inf, math.inf
    spread = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return fmean(differences), spread


class SafetyNet:
    """The sample's first losses and a snapshot of the last good state, in host memory.

    Attributes:
        since: the step whose state the snapshot is, or the one after which it was last put back: a rollback undoes
            the steps from there on.
    """

    def __init__(
        self,
        look: Callable[[], list[float]],
        *,
        save: Callable[[], Mapping[str, Any]],
        restore: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """``look`` evaluates the loss of every example of the sample; ``save`` copies weights and optimizer state."""
        self._look, self._save, self._restore = look, save, restore
        self._first: list[float] = []
        self._snapshot: Mapping[str, Any] = {}
        self.since = 0

    @property
    def begun(self) -> bool:
        """Whether there is a snapshot."""
        return bool(self._snapshot)

    def begin(self, step: int) -> float:
        """The state after ``step`` steps, before the first update, is the first good one; returns its mean loss."""
        self._first = self._look()
        self.keep(step)
        return fmean(self._first)

    def keep(self, step: int) -> None:
        """The present state is good."""
        self._snapshot, self.since = self._save(), step

    def harm(self) -> tuple[float, float]:
        """How far the loss is above the first one, with its standard error."""
        return harm(self._first, self._look())

    def roll_back(self, step: int) -> int:
        """The last good weights, buffers and optimizer state, bit for bit; returns how many steps that undid."""
        self._restore(self._snapshot)
        undone, self.since = step - self.since, step
        return undone

    def loss(self) -> float:
        """The mean loss of the sample's examples at the present weights."""
        return fmean(self._look())

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"first": list(self._first), "snapshot": self._snapshot, "since": self.since}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._first, self._snapshot, self.since = list(state["first"]), state["snapshot"], state["since"]
