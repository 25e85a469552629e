"""Totals of a running sweep for its display: what it spent, its hypervolume and its last warning."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from analysis.words import duration
from sweeper.search.archive import number
from sweeper.settings.resources import Resources


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that trials held their workers, each with these resources; ``gpu_seconds`` where GPU shares differed."""

    seconds: float
    resources: Resources
    gpu_seconds: float | None = None

    @property
    def gpu_hours(self) -> float:
        """Of a GPU shared by four a quarter each."""
        return (self.seconds * self.resources.gpus if self.gpu_seconds is None else self.gpu_seconds) / 3600

    @property
    def cpu_hours(self) -> float:
        """Of CPU threads."""
        return self.seconds * self.resources.cpus / 3600

    def words(self) -> str:
        """``12 min 30 s of trials, 0.21 GPU hours``."""
        hours, kind = (self.gpu_hours, "GPU") if self.resources.gpus else (self.cpu_hours, "CPU")
        return f"{duration(self.seconds)} of trials, {hours:.3g} {kind} hours"


@dataclass(kw_only=True)
class Course:
    """Totals over the trials that have ended; ``resources`` are those of a trial."""

    resources: Resources = field(default_factory=lambda: Resources(cpus=1.0, gpus=0.0))
    hypervolume: float | None = None
    warning: str = ""
    warned_at: float | None = None
    _seconds: float = 0.0
    _gpu_seconds: float = 0.0

    def ended(self, row: Mapping[str, object]) -> None:
        """Add the cost of a trial that ended; a reused trial cost nothing here."""
        if not row.get("reused_from") and math.isfinite(seconds := number(row.get("wall_seconds"))):
            self._seconds += seconds
            share = number(row.get("gpu_share"))
            self._gpu_seconds += seconds * (share if math.isfinite(share) else self.resources.gpus)

    def warned(self, text: str) -> None:
        """Remember a warning that does not stop the sweep."""
        self.warning, self.warned_at = text, time.time()

    def spent(self, running_since: Iterable[float] = ()) -> Spent:
        """Return the cost of the trials that ended, and of those that have run on a worker since these times."""
        now = time.time()
        running = sum(max(0.0, now - since) for since in running_since)
        return Spent(self._seconds + running, self.resources, self._gpu_seconds + running * self.resources.gpus)
