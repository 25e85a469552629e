"""What a terminal and a log show of a running sweep."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.followers.progress_bar import heartbeat
from sweeper.store.events import Kind
from tests.facts import assert_names
from tests.sweeper.conftest import OUTCOME, bare_sweep, report, run_trial, running, wait_until

FAILED = {"status": "failed", "error": "memory ran out", "checkpoint": None}


def terminal(height: int = 40) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, height=height)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_trials_hypervolume_cost_estimate_early_stops_and_the_last_warning(out: Path) -> None:
    console = terminal()
    sweep = bare_sweep(out, console=console)
    ended = run_trial(sweep, outcome=OUTCOME | {"wall_seconds": 90.0})
    failed = run_trial(sweep, outcome=FAILED)
    stopped = running(sweep)
    report(sweep, stopped, 1)
    sweep.controller.request_stop(stopped)
    sweep.controller.end_stopped(stopped)
    sweep.followers.display.close()
    found = sweep.estimate()
    assert (found.trials, found.seconds) == (0, 0.0)
    hypervolume = f"{sweep.controller.study.archive.trace[-1]:.4f}"
    epochs = f"{sweep.settings.base.epochs - 1:g} epochs"
    assert_names(text_of(console), ended, failed, stopped, "1 min 30 s", hypervolume, "memory ran out", epochs)


def test_a_small_terminal_shows_the_newest_trials(out: Path) -> None:
    console = terminal(height=20)
    sweep = bare_sweep(out, console=console)
    for number in range(30):
        trial_id = f"{number:05}"
        sweep.log.record(Kind.TRIAL_PROPOSED, trial_id, {"settings": {"method": "gdiff", "lr": 1e-4}})
        sweep.log.record(Kind.TRIAL_ENDED, trial_id, {"outcome": FAILED})
    display = sweep.followers.display
    lines = ["".join(segment.text for segment in line) for line in console.render_lines(display._render(), pad=False)]
    display.close()
    assert len(lines) <= 20
    assert any(line.startswith("00029") for line in lines)
    assert not any(line.startswith("00009") for line in lines)


# A log --------------------------------------------------------------------------------------------------------------


def test_a_log_has_one_line_for_each_trial_that_ended(out: Path) -> None:
    console = Console(file=io.StringIO(), width=20)
    sweep = bare_sweep(out, console=console)
    run_trial(sweep)
    run_trial(sweep, outcome=FAILED)
    sweep.followers.display.close()
    first, second = text_of(console).splitlines()
    assert_names(first, "00000", "finished", "9", "0.25", "1.5 s")
    assert_names(second, "00001", "failed", "memory ran out")


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.followers.progress_bar.HEARTBEAT", 0.02)


@pytest.mark.usefixtures("_quick")
def test_a_log_shows_at_intervals_that_work_continues() -> None:
    console = Console(file=io.StringIO())
    with heartbeat(console, lambda: "epoch 2 of 9"):
        wait_until(lambda: text_of(console).count("\n") >= 2)
    written = text_of(console)
    assert all("epoch 2 of 9" in line for line in written.splitlines())
    time.sleep(0.1)
    assert text_of(console) == written


@pytest.mark.usefixtures("_quick")
def test_a_log_shows_at_intervals_how_far_the_sweep_is(out: Path) -> None:
    console = Console(file=io.StringIO(), width=20)
    sweep = bare_sweep(out, console=console)
    run_trial(sweep)
    report(sweep, running(sweep), 4, forget_loss_capped=2.0, retain_loss=0.5)
    before = len(text_of(console))
    wait_until(lambda: text_of(console)[before:].count("\n") >= 3)
    sweep.followers.display.close()
    assert_names(text_of(console).splitlines()[-1], "1 of 3", "00001", "epoch 4", "1 epoch on", str(sweep.estimate()))
