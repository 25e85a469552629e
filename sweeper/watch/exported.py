"""How a sweep stands as metrics of Ray's, which the cluster's nodes export to Prometheus (docs/running.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sweeper.watch.course import INFRASTRUCTURE, TRIAL
from trainables.run.reports import Status

if TYPE_CHECKING:
    from sweeper.display import Display

EVERY = 5.0
"""Seconds between two updates: Ray passes them on every ten."""
METRICS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sweeper_trials": ("trials by state: running, waiting, and those that have ended by status", ("state",)),
    "sweeper_trials_asked": ("trials asked for", ()),
    "sweeper_failures": ("trials that failed, by whose failure: the trial's own, or of the infrastructure", ("cause",)),
    "sweeper_epochs": ("epochs trained, of the running trials too", ()),
    "sweeper_front_epochs": ("epochs on the frontier", ()),
    "sweeper_hypervolume": ("share of the objectives' box that the frontier dominates, from 0 to 1", ()),
}
"""What each metric is, and the tags it has beside ``sweep``, the name of the sweep's folder. Ray puts ``ray_`` before
the names. All are gauges: what a resumed sweep tells is of the whole sweep."""

logger = logging.getLogger(__name__)
Measured = dict[tuple[str, str], float]
"""By metric, and the value of its own tag: empty where it has none."""


class Gauge(Protocol):
    """As much of ``ray.util.metrics.Gauge`` as is used."""

    def set(self, value: float, tags: dict[str, str]) -> None: ...


def measured(display: Display) -> Measured:
    """The values now; every state and cause has one, so that what is over falls back to 0."""
    course = display.course
    found: Measured = {("sweeper_trials", state): float(course.ended_as[state]) for state in Status}
    found |= {("sweeper_trials", "running"): float(len(display.running))}
    found |= {
        ("sweeper_trials", "waiting"): float(len(display.waiting)),
        ("sweeper_trials_asked", ""): float(display.asked),
    }
    found |= {("sweeper_failures", cause): float(course.failures[cause]) for cause in (TRIAL, INFRASTRUCTURE)}
    under_way = sum(float(row.get("epoch") or 0.0) for row in display.running)
    found |= {
        ("sweeper_epochs", ""): course.epochs + under_way,
        ("sweeper_front_epochs", ""): float(course.front_epochs),
    }
    if course.hypervolume is not None:
        found["sweeper_hypervolume", ""] = float(course.hypervolume)
    return found


def _ray_gauge(name: str, description: str, tags: tuple[str, ...]) -> Gauge:
    from ray.util.metrics import Gauge as RayGauge

    gauge: Gauge = RayGauge(name, description=description, tag_keys=tags)
    return gauge


@dataclass
class Exported:
    """Passes on the values of the sweep in a folder called ``sweep``; what fails here is logged once and given up."""

    sweep: str
    make: Callable[[str, str, tuple[str, ...]], Gauge] = _ray_gauge
    _gauges: dict[str, Gauge] = field(default_factory=dict)
    _told: float = -EVERY
    _failed: bool = False

    def tell(self, display: Display, *, anyway: bool = False) -> None:
        """Set what has changed, every :data:`EVERY` seconds or ``anyway``."""
        now = time.monotonic()
        if self._failed or (now - self._told < EVERY and not anyway):
            return
        self._told = now
        try:
            for (name, value), number in measured(display).items():
                description, own = METRICS[name]
                if name not in self._gauges:
                    self._gauges[name] = self.make(name, description, ("sweep", *own))
                self._gauges[name].set(number, {"sweep": self.sweep, **dict.fromkeys(own, value)})
        except Exception:
            self._failed = True
            logger.exception("no metrics for Prometheus any more after an error in them; the sweep goes on")
