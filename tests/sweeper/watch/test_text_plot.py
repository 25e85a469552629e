"""A frontier as characters, and what a display tells of the sweep as a whole."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from rich.console import Console

from sweeper.display import Display
from sweeper.placement import Resources
from sweeper.watch.course import Course, Spent
from sweeper.watch.text_plot import text_plot

LOSSES: dict[str, Any] = {
    "goals": (("forget_loss_capped", "max"), ("retain_loss", "min")),
    "names": ("forget_loss", "retain_loss"),
}


def epoch(forget: float, retain: float) -> dict[str, object]:
    return {"epoch": 1.0, "forget_loss": forget, "forget_loss_capped": forget, "retain_loss": retain}


def test_the_front_is_drawn_in_its_own_window_among_what_lies_there() -> None:
    others, front = [(1.0, 1.0), (1e9, 5.0)], [(0.0, 0.0), (2.0, 2.0)]
    assert text_plot(others, front, names=("forget", "retain"), width=21, height=7) == [
        "     retain",
        " 2.3 │",
        "     │                  ●",
        "     │",
        "     │          ·",
        "     │",
        "     │  ●",
        "-0.3 │",
        "     └─────────────────────",
        "      -0.3    forget    2.3",
    ]


def test_without_a_front_there_is_no_plot_and_one_point_has_room_around_it() -> None:
    assert text_plot([(1.0, 1.0)], [], names=("x", "y")) == []
    assert sum(line.count("●") for line in text_plot([], [(0.0, 3.0)], names=("x", "y"))) == 1


def test_the_course_keeps_what_nothing_dominates() -> None:
    course = Course(**LOSSES)
    for forget, retain in ((1.0, 1.0), (2.0, 0.5), (3.0, 0.9), (0.5, 3.0)):
        course.reported(epoch(forget, retain))
    course.reported({**epoch(9.0, 0.0), "evaluated": False})
    assert "\n".join(course.plot()).count("●") == 2


def test_what_was_taken_over_has_cost_nothing_here() -> None:
    course = Course(resources=Resources(cpus=2.0, gpus=0.25))
    course.ended({"status": "finished", "wall_seconds": "3600"})
    course.ended({"status": "finished", "wall_seconds": "9", "reused_from": "elsewhere/00001"})
    course.ended({"status": "failed", "wall_seconds": ""})
    spent = course.spent()
    assert (spent.seconds, spent.gpu_hours, spent.cpu_hours) == (3600.0, 0.25, 2.0)
    assert spent.words() == "1 h 00 min of trials, 0.25 GPU hours"
    assert Spent(36.0, Resources(cpus=1.0, gpus=0.0)).words() == "36.0 s of trials, 0.01 CPU hours"
    assert course.spent([time.time() - 100]).seconds == pytest.approx(3700, abs=5)


def test_a_terminal_shows_front_hypervolume_cost_time_left_and_the_last_warning() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    display = Display(console, trials=5, done=0, course=Course(**LOSSES))
    display.started("00000", {"method": "gdiff", "lr": 1e-4})
    for number in (1, 2):
        display.reported("00000", epoch(number, number))
    display.attained(0.5)
    display.left("about 4 trials, 2 min")
    row = {
        "trial_id": "00000",
        "method": "gdiff",
        "lr": 1e-4,
        "status": "failed",
        "error": "memory ran out",
        "wall_seconds": 90.0,
    }
    display.ended("00000", row)
    display.close()
    console.file.seek(0)
    shown = console.file.read()
    for told in ("●", "forget loss", "hypervolume 0.5000; cost so far: 1 min 30 s of trials", "left: about 4 trials"):
        assert told in shown
    assert "last warning: trial 00000 failed: memory ran out" in shown


def test_a_small_terminal_has_its_rows_and_no_plot() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=20)
    display = Display(console, trials=40, done=0, course=Course(**LOSSES))
    display.reported("00000", epoch(1.0, 1.0))
    for number in range(30):
        row: dict[str, Any] = {
            "trial_id": f"{number:05}",
            "method": "gdiff",
            "lr": 1e-4,
            "status": "finished",
            "wall_seconds": 9.0,
        }
        display.ended(row["trial_id"], row)
    shown = console.render_lines(display._render(), pad=False)
    display.close()
    lines = ["".join(segment.text for segment in line) for line in shown]
    assert len(lines) <= 20
    assert any(line.startswith("00029") for line in lines)
    assert not any("●" in line for line in lines)
