"""Signs of life where output goes to a file."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from sweeper.display import Display
from sweeper.progress import heartbeat


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.progress.HEARTBEAT", 0.02)


def lines_of(file: io.StringIO, *, most: float = 10.0) -> list[str]:
    """What was written, once there are two lines of it."""
    deadline = time.monotonic() + most
    while file.getvalue().count("\n") < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    return file.getvalue().splitlines()


def test_a_log_hears_from_what_takes_long_and_no_more_when_it_is_done() -> None:
    file = io.StringIO()
    with heartbeat(Console(file=file), lambda: "epoch 2 of 9"):
        told = lines_of(file)
    assert len(told) >= 2
    assert all(line.startswith("... epoch 2 of 9, 0.") for line in told)
    written = file.getvalue()
    time.sleep(0.1)
    assert file.getvalue() == written


def test_a_terminal_has_its_bar_instead() -> None:
    file = io.StringIO()
    with heartbeat(Console(file=file, force_terminal=True), lambda: "epoch 2"):
        time.sleep(0.1)
    assert file.getvalue() == ""


def test_a_log_of_a_sweep_hears_how_far_it_is() -> None:
    file = io.StringIO()
    display = Display(Console(file=file, width=20), trials=5, done=2)
    display.started("00003", {"method": "gdiff", "lr": 1e-4})
    display.reported("00003", {"epoch": 4.0})
    display.front(7)
    display.left("about 3 trials, 2 min")
    told = "... 2 of 5 trials done; running 00003 at epoch 4; 7 epochs on the frontier; left: about 3 trials, 2 min, 0."
    file.truncate(0)
    lines = lines_of(file)
    display.close()
    assert any(line.strip("\0").startswith(told) for line in lines)
