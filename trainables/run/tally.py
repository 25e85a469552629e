"""What a run has used up so far: seconds, and positions of batches that were padding."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from trainables.batches import padded_positions


@dataclass(slots=True)
class Tally:
    """Seconds of training, of evaluation, and of the part of it in which answers were generated; positions."""

    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    generation_seconds: float = 0.0
    padded: int = 0
    positions: int = 0

    @contextmanager
    def timed(self, what: Literal["train_seconds", "eval_seconds"]) -> Iterator[None]:
        """Add the time spent inside, also where an exception ends it."""
        started = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - started)

    def count_batch(self, lengths: Sequence[int]) -> None:
        """Add the positions of a batch of sequences of these lengths."""
        padded, positions = padded_positions(lengths)
        self.padded += padded
        self.positions += positions

    @property
    def padding(self) -> float | None:
        """The share of padding among all positions; None before the first batch."""
        return self.padded / self.positions if self.positions else None
