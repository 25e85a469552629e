"""What is seen of a running sweep as a whole: its front, how much that dominates, what was spent."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.words import duration
from sweeper.attained import number
from sweeper.placement import Resources
from sweeper.watch.text_plot import Point, text_plot
from trainables.candidates import Costs, Goals, costs_of, dominates
from trainables.run.failures import is_no_result
from trainables.run.reports import Status

TRIAL, INFRASTRUCTURE = "trial", "infrastructure"
"""Whose failure a failed trial is."""


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
    """Hears of every epoch and of every trial that ends; points are drawn where there are two ``goals``.

    ``names`` are what a person calls these objectives. With ``every_epoch`` each evaluated one is a point, else the end
    of a finished trial. ``epochs`` is how many were trained by the trials that have ended, of which ``ended_as`` and
    ``failures`` count the statuses and the causes.
    """

    goals: Goals = ()
    names: Sequence[str] = ()
    every_epoch: bool = True
    resources: Resources = field(default_factory=lambda: Resources(cpus=1.0, gpus=0.0))
    hypervolume: float | None = None
    front_epochs: int = 0
    epochs: float = 0.0
    ended_as: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    warning: str = ""
    warned_at: float | None = None
    _points: list[Point] = field(default_factory=list)
    _front: list[Costs] = field(default_factory=list)
    _seconds: float = 0.0
    _gpu_seconds: float = 0.0

    def take_up(self, trials: Iterable[Mapping[str, object]], epochs: Iterable[Mapping[str, object]]) -> None:
        """Begin with the rows of trials.csv and of candidates.csv."""
        for row in trials:
            self.ended(row)
        for row in epochs:
            self.reported(row)

    def reported(self, report: Mapping[str, object]) -> None:
        """An epoch is done."""
        if self.every_epoch and report.get("evaluated", True):
            self._add(report)

    def ended(self, row: Mapping[str, object]) -> None:
        """A trial is over; one that was taken over from elsewhere has cost nothing here."""
        self.ended_as[str(row.get("status"))] += 1
        if row.get("status") == Status.FAILED:
            self.failures[INFRASTRUCTURE if is_no_result("failed", row.get("error")) else TRIAL] += 1
        if not row.get("reused_from") and math.isfinite(done := number(row.get("epochs_done"))):
            self.epochs += done
        if not row.get("reused_from") and math.isfinite(seconds := number(row.get("wall_seconds"))):
            self._seconds += seconds
            share = number(row.get("gpu_share"))
            self._gpu_seconds += seconds * (share if math.isfinite(share) else self.resources.gpus)
        if not self.every_epoch and row.get("status") == Status.FINISHED:
            self._add(row)

    def warned(self, text: str) -> None:
        """Something went wrong that does not end the sweep."""
        self.warning, self.warned_at = text, time.time()

    def spent(self, running_since: Iterable[float] = ()) -> Spent:
        """By the trials that have ended, and by those on a worker since these times."""
        now = time.time()
        running = sum(max(0.0, now - since) for since in running_since)
        return Spent(self._seconds + running, self.resources, self._gpu_seconds + running * self.resources.gpus)

    def plot(self, *, width: int = 48, height: int = 8) -> list[str]:
        """The front so far as text; [] without one, or where it has not two axes."""
        names = [name.replace("_", " ") for name in self.names]
        front = [self._point(costs) for costs in self._front]
        return text_plot(self._points, front, names=names, width=width, height=height)

    def _add(self, row: Mapping[str, object]) -> None:
        if len(self.goals) != 2 or (mine := costs_of(row, self.goals)) is None:
            return
        self._points.append(self._point(mine))
        if not any(dominates(other, mine) for other in self._front):
            self._front = [other for other in self._front if not dominates(mine, other)] + [mine]

    def _point(self, costs: Costs) -> Point:
        x, y = (value if way == "min" else -value for value, (_, way) in zip(costs, self.goals, strict=True))
        return x, y
