"""Measure the seconds that a run has spent on each activity, and the share of padding in its batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True)
class Timers:
    """The seconds of training, evaluation and generation (a part of evaluation), and counts of batch positions."""

    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    generation_seconds: float = 0.0
    padded: int = 0
    positions: int = 0

    @contextmanager
    def timed(self, activity: Literal["train_seconds", "eval_seconds"]) -> Iterator[None]:
        """Add the duration of the block to ``activity``, even if the block raises."""
        started = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, activity, getattr(self, activity) + time.perf_counter() - started)

    def count_batch(self, lengths: Sequence[int]) -> None:
        """Count the positions of a batch of sequences with these lengths."""
        positions = len(lengths) * max(lengths)
        self.padded += positions - sum(lengths)
        self.positions += positions

    def seconds(self) -> dict[str, float]:
        """Return the three durations as columns for trials.csv."""
        return {name: getattr(self, name) for name in ("train_seconds", "eval_seconds", "generation_seconds")}

    @property
    def padding(self) -> float | None:
        """The share of padding among all positions; None before the first batch."""
        return self.padded / self.positions if self.positions else None
