"""Measure the seconds that a run has spent on each activity."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True)
class Timers:
    """The seconds of training, evaluation and generation (a part of evaluation), as columns of trials.csv."""

    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    generation_seconds: float = 0.0

    @contextmanager
    def timed(self, activity: Literal["train_seconds", "eval_seconds"]) -> Iterator[None]:
        """Add the duration of the block to ``activity``, even if the block raises."""
        started = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, activity, getattr(self, activity) + time.perf_counter() - started)
