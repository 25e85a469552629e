"""The lines that a running sweep shows on a terminal and in a log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.facts import assert_names
from tests.sweeper.conftest import bare_sweep, report, run_trial, running, wait_until


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_ended_trials_and_below_them_the_progress(out: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, highlight=False)
    sweep = bare_sweep(out, console=console)
    run_trial(sweep)
    stopped = running(sweep)
    report(sweep, stopped, 1)
    sweep.controller.request_stop(stopped)
    sweep.controller.end_stopped(stopped)
    report(sweep, running(sweep), 4, forget_loss_capped=2.0, retain_loss=0.5)
    sweep.display.close()
    hypervolume = f"{sweep.controller.study.archive.trace[-1]:.4f}"
    assert_names(text_of(console), "00000 finished", f"1 of {sweep.settings.base.epochs} epochs", "2 of 3", hypervolume)
    assert_names(text_of(console), "00002 at epoch 4")


def test_a_log_has_a_line_for_each_trial_that_ended_and_shows_at_intervals_how_far_the_sweep_is(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.console.HEARTBEAT", 0.02)
    console = Console(file=io.StringIO(), width=20)
    sweep = bare_sweep(out, console=console)
    run_trial(sweep)
    run_trial(sweep, outcome={"status": "failed", "error": "memory ran out", "checkpoint": None})
    report(sweep, running(sweep), 4, forget_loss_capped=2.0, retain_loss=0.5)
    before = len(text_of(console))
    wait_until(lambda: text_of(console)[before:].count("\n") >= 3)
    sweep.display.close()
    first, second = (line for line in text_of(console).splitlines() if not line.startswith("..."))
    assert_names(first, "00000", "finished", "forget_loss_capped 7.6", "retain_loss 0.25", "1.5 s")
    assert_names(second, "00001", "failed", "memory ran out")
    assert_names(text_of(console).splitlines()[-1], "2 of 3", "00002", "epoch 4", "1 epoch on", str(sweep.estimate()))
