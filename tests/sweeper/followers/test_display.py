"""What a display shows of the sweep as a whole, what a log gets instead, and what is said while no trial runs."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from rich.console import Console

from sweeper.execution import ray_health
from sweeper.followers.display import Display
from sweeper.followers.progress import Course
from sweeper.followers.progress_bar import heartbeat
from sweeper.settings.resources import Resources
from tests.sweeper.conftest import wait_until

ROW: dict[str, Any] = {"trial_id": "00000", "method": "gdiff", "lr": 1e-4, "wall_seconds": 90.0}


def test_reused_trials_cost_nothing_here() -> None:
    course = Course(resources=Resources(cpus=2.0, gpus=0.25))
    course.ended({"status": "finished", "wall_seconds": "3600"})
    course.ended({"status": "finished", "wall_seconds": "9", "reused_from": "elsewhere/00001"})
    course.ended({"status": "failed", "wall_seconds": ""})
    spent = course.spent()
    assert (spent.seconds, spent.gpu_hours, spent.cpu_hours) == (3600.0, 0.25, 2.0)
    assert course.spent([time.time() - 100]).seconds == pytest.approx(3700, abs=30)


def test_a_terminal_shows_hypervolume_cost_time_left_and_the_last_warning() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    display = Display(console, trials=5, done=0)
    display.started("00000", ROW)
    display.reported("00000", {"epoch": 1.0, "forget_loss": 1.0, "retain_loss": 1.0})
    display.attained(0.5)
    display.left("about 4 trials, 2 min")
    display.ended("00000", ROW | {"status": "failed", "error": "memory ran out"})
    display.close()
    console.file.seek(0)
    shown = console.file.read()
    assert all(text in shown for text in ("0.5000", "1 min 30 s", "about 4 trials", "memory ran out"))


def test_a_small_terminal_has_the_newest_rows() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=20)
    display = Display(console, trials=40, done=0)
    for number in range(30):
        display.ended(f"{number:05}", ROW | {"trial_id": f"{number:05}", "status": "finished"})
    lines = ["".join(segment.text for segment in line) for line in console.render_lines(display._render(), pad=False)]
    display.close()
    assert len(lines) <= 20
    assert any(line.startswith("00029") for line in lines)


# A log -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.followers.progress_bar.HEARTBEAT", 0.02)


@pytest.mark.usefixtures("_quick")
def test_a_log_has_signs_of_life_until_the_work_is_done() -> None:
    file = io.StringIO()
    with heartbeat(Console(file=file), lambda: "epoch 2 of 9"):
        wait_until(lambda: file.getvalue().count("\n") >= 2)
    written = file.getvalue()
    assert all("epoch 2 of 9" in line for line in written.splitlines())
    time.sleep(0.1)
    assert file.getvalue() == written

    display = Display(Console(file=file, width=20), trials=5, done=2)
    display.started("00000", ROW)
    display.reported("00000", {"epoch": 4.0})
    display.front(7)
    display.left("about 3 trials, 2 min")
    file.truncate(0)
    wait_until(lambda: file.getvalue().count("\n") >= 2)
    display.close()
    facts = ("2 of 5", "00000", "epoch 4", "7 epochs", "2 min")
    assert any(all(fact in line for fact in facts) for line in file.getvalue().splitlines())


@pytest.mark.usefixtures("_quick")
def test_a_terminal_has_its_bar_instead() -> None:
    file = io.StringIO()
    with heartbeat(Console(file=file, force_terminal=True), lambda: "epoch 2"):
        time.sleep(0.1)
    assert file.getvalue() == ""


# No trial runs -----------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(ray_health.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ray_health, "ray_logs", lambda: Path("/logs"))
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 3.0, "memory": 1e9})
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0, "GPU": 4.0})
    return now


@pytest.mark.parametrize(
    ("is_cluster", "named"), [(False, ["/logs"]), (True, ["3 of 16 CPUs", "0 of 4 GPUs", "/logs"])]
)
def test_a_minute_without_a_running_trial_is_reported_until_one_runs(
    clock: list[float], is_cluster: bool, named: list[str]
) -> None:
    display = Display(Console(file=io.StringIO()), trials=4, done=0)
    watch = ray_health.StarvationCheck(Resources(2.0, 0.5), is_cluster=is_cluster)

    def reported_after(seconds: float) -> str:
        clock[0] += seconds
        display.idle = watch.message(is_running=bool(display.running))
        return display.idle

    assert reported_after(59.0) == ""
    display.started("00000", ROW)
    assert reported_after(600.0) == ""
    display.paused("00000")
    assert reported_after(59.0) == ""
    reported = reported_after(2.0)
    assert all(word in reported for word in ["1 min 01 s", *named])
    assert display.idle in display._words()
    display.started("00001", ROW)
    assert reported_after(0.0) == ""


def test_rays_logs_are_named_only_while_ray_runs() -> None:
    assert ray_health.ray_logs() is None
