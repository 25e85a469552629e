"""What Prometheus is told of a sweep; a stand-in for Ray's gauges, as the installed Ray has no exporter."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sweeper.display import Display
from sweeper.watch.exported import METRICS, Exported, measured

ROW = {"method": "ngdiff", "lr": 1e-4, "epochs": 4}


@dataclass
class Gauges:
    """What was set last, by name and tags; ``broken`` ones raise."""

    values: dict[tuple[str, ...], float] = field(default_factory=dict)
    sets: int = 0
    broken: bool = False

    def make(self, name: str, description: str, tags: tuple[str, ...]) -> Any:
        assert description
        outer = self

        class Gauge:
            def set(self, value: float, tags_given: dict[str, str]) -> None:
                if outer.broken:
                    raise RuntimeError("no agent")
                assert (*tags_given,) == tags, "Ray refuses a missing tag"
                assert isinstance(value, float)
                outer.sets += 1
                outer.values[name, *tags_given.values()] = value

        return Gauge()


@pytest.fixture
def display() -> Display:
    """Six trials asked for: two ended before this process, one runs, one failed, one waits."""
    shown = Display(Console(quiet=True), trials=6, done=2)
    before = [
        {"status": "finished", "epochs_done": "4.0"},
        {"status": "failed", "error": "no space left on the disk: x"},
    ]
    shown.course.take_up(before, [])
    for trial_id in ("00002", "00003", "00004"):
        shown.started(trial_id, ROW)
    shown.reported("00002", {"epoch": 2.0, "forget_loss": 1.0, "retain_loss": 1.0})
    shown.ended("00003", ROW | {"status": "failed", "error": "LoadError: no", "epochs_done": 1.0})
    shown.paused("00004")
    return shown


def test_every_state_has_a_number_and_a_resumed_sweep_counts_on(display: Display) -> None:
    states = {state: number for (name, state), number in measured(display).items() if name == "sweeper_trials"}
    assert states == {"running": 1, "waiting": 1, "finished": 1, "failed": 2, "diverged": 0, "stopped": 0}
    others = {key: number for key, number in measured(display).items() if key[0] != "sweeper_trials"}
    assert others == {
        ("sweeper_trials_asked", ""): 6,
        ("sweeper_failures", "trial"): 1,
        ("sweeper_failures", "infrastructure"): 1,
        ("sweeper_epochs", ""): 4 + 1 + 2,
        ("sweeper_front_epochs", ""): 0,
    }, "no hypervolume before there is one"
    display.attained(0.5)
    display.front(3)
    assert measured(display)["sweeper_hypervolume", ""] == 0.5
    assert measured(display)["sweeper_front_epochs", ""] == 3.0
    assert {name for name, _ in measured(display)} == {*METRICS}


def test_the_gauges_have_the_sweeps_name_and_are_not_set_all_the_time(display: Display) -> None:
    gauges = Gauges()
    exported = Exported("tofu", make=gauges.make)
    exported.tell(display)
    assert gauges.values["sweeper_trials", "tofu", "failed"] == 2.0
    assert gauges.values["sweeper_trials_asked", "tofu"] == 6.0
    before = gauges.sets
    display.ended("00002", ROW | {"status": "finished", "epochs_done": 4.0})
    exported.tell(display)
    assert gauges.sets == before
    exported.tell(display, anyway=True)
    assert gauges.values["sweeper_trials", "tofu", "running"] == 0.0
    assert gauges.values["sweeper_trials", "tofu", "finished"] == 2.0


def test_an_error_is_told_once_and_ends_nothing(display: Display, caplog: pytest.LogCaptureFixture) -> None:
    exported = Exported("tofu", make=Gauges(broken=True).make)
    for _ in range(3):
        exported.tell(display, anyway=True)
    assert len(caplog.records) == 1


def test_rays_own_gauges_take_them_where_nothing_runs_that_exports(display: Display) -> None:
    exported = Exported("tofu")
    exported.tell(display)
    assert not exported._failed


def test_the_page_names_every_metric() -> None:
    page = (Path(__file__).parents[3] / "docs" / "running.md").read_text(encoding="utf-8")
    assert [name for name in METRICS if f"`ray_{name}`" not in page] == []
