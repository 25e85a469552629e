"""Trials run with the priority of the driver. Real Ray."""

from __future__ import annotations

import os

import pytest
import ray

from sweeper.execution.cluster import ray_cluster
from sweeper.settings.resources import Resources


@pytest.mark.ray
def test_workers_have_the_priority_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_worker_niceness", raising=False)
    with ray_cluster(None, resources=Resources(1, 0)):
        niceness = ray.get(ray.remote(lambda: os.nice(0)).remote())
    assert niceness == os.nice(0)
