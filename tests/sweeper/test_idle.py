"""A sweep none of whose trials has a worker says so, and what it waits for."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import ray
from rich.console import Console

from sweeper import idle, ray_logs
from sweeper.display import Display
from sweeper.idle import Idle
from sweeper.placement import Resources


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(idle.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(idle, "ray_logs", lambda: Path("/logs"))
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 3.0, "memory": 1e9})
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0, "GPU": 4.0})
    return now


@pytest.fixture
def display() -> Display:
    return Display(Console(file=io.StringIO()), trials=4, done=0)


def test_nothing_is_said_before_a_minute_nor_while_a_trial_runs(clock: list[float], display: Display) -> None:
    watch = Idle(Resources(1.0, 0.0), is_cluster=False)
    clock[0] += 59.0
    watch.look(display)
    assert display.idle == ""
    display.started("00000", {"method": "gdiff", "lr": 1e-4})
    clock[0] += 600.0
    watch.look(display)
    assert display.idle == ""
    display.paused("00000")
    clock[0] += 59.0
    watch.look(display)
    assert display.idle == ""
    clock[0] += 2.0
    watch.look(display)
    assert display.idle == "no trial has had a worker for 1 min 01 s: none starts; what Ray says of it is in /logs"
    assert display.idle in display._words()


def test_what_was_said_is_taken_back_when_a_trial_runs(clock: list[float], display: Display) -> None:
    watch = Idle(Resources(1.0, 0.0), is_cluster=False)
    clock[0] += 90.0
    watch.look(display)
    assert display.idle
    display.started("00000", {"method": "gdiff", "lr": 1e-4})
    watch.look(display)
    assert display.idle == ""


def test_on_a_cluster_what_is_free_is_named(clock: list[float], display: Display) -> None:
    watch = Idle(Resources(2.0, 0.5), is_cluster=True)
    clock[0] += 120.0
    watch.look(display)
    assert display.idle == (
        "no trial has had a worker for 2 min 00 s: free of the cluster are 3 of 16 CPUs, 0 of 4 GPUs; where that is "
        "enough none starts, and what Ray says of it is in /logs"
    )


def test_logs_are_named_while_ray_runs_only() -> None:
    assert ray_logs.ray_logs() is None
