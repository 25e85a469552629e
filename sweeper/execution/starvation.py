"""What a person is told when no trial has been on a worker for a while: a sweep that waits must not look like work."""

from __future__ import annotations

import time
from collections.abc import Mapping

from analysis.words import duration
from sweeper.execution.ray_logs import ray_logs
from sweeper.followers.display import Display
from sweeper.settings.resources import Resources

_PATIENCE = 60.0
"""Seconds: a worker imports torch from a slow disk in less."""
_EVERY = 10.0


class StarvationCheck:
    """Watches whether any trial runs. ``is_cluster``: others may have what a trial asks for."""

    def __init__(self, resources: Resources, *, is_cluster: bool) -> None:
        self._resources = resources
        self._is_cluster = is_cluster
        self._since = self._looked = time.monotonic()

    def look(self, display: Display) -> None:
        """Tell the display for how long no trial has run, and what may be the reason."""
        now = time.monotonic()
        if display.running:
            self._since = now
            display.idle = ""
        elif now - self._since >= _PATIENCE and now - self._looked >= _EVERY:
            self._looked = now
            display.idle = f"no trial has had a worker for {duration(now - self._since)}: {self._reason()}"

    def _reason(self) -> str:
        import ray

        logs = f"what Ray says of it is in {folder}" if (folder := ray_logs()) else "see Ray's logs"
        if not self._is_cluster:
            return f"none starts; {logs}"
        free, asked = ray.available_resources(), {"CPU": self._resources.cpus, "GPU": self._resources.gpus}
        has = ray.cluster_resources()
        names = [name for name, number in asked.items() if number > 0]
        return f"free of the cluster are {_listed(free, has, names)}; where that is enough none starts, and {logs}"


def _listed(free: Mapping[str, float], has: Mapping[str, float], names: list[str]) -> str:
    """``0 of 16 CPUs, 1.5 of 4 GPUs``."""
    return ", ".join(f"{free.get(name, 0.0):g} of {has.get(name, 0.0):g} {name}s" for name in names)
