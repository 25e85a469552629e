"""What a signal is answered with, signals that the main thread cannot handle, and those that a library takes away."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

import pytest

from sweeper.execution.shutdown import preserve_sigterm_handler
from tests.sweeper.conftest import hear_signals

PROGRAM = """
import ctypes, signal, sys, time
from sweeper.execution import shutdown as interruption
interruption._TIME_LIMIT, interruption._LAST_LINES = {patience}, 0.5
mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)
try:
    with interruption.interruptible("told at last\\n", say={say}){held}:
        print("here", flush=True)
        {what}
except interruption.Interrupted:
    print("Interrupted", file=sys.stderr)
print("left", file=sys.stderr)
"""
IN_C = "lock(mutex)"
IN_PYTHON = "[time.sleep(0.05) for _ in range(40)]"
AS_TUNE = f"""signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True)); {IN_PYTHON}"""
HELD = ", interruption.defer_signals()"


def signalled(
    number: signal.Signals,
    what: str,
    *,
    patience: float = 10.0,
    held: str = "",
    say: str = "interruption._print",
    again: bool = False,
) -> tuple[int, list[str], float]:
    """The exit code, the lines on stderr, and the seconds from the signal to the end.

    With ``again`` the signal is sent once more, as soon as the first has been handled.
    """
    program = PROGRAM.format(patience=patience, held=held, say=say, what=what)
    command = [sys.executable, "-c", program]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "preexec_fn": hear_signals}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        time.sleep(0.3)
        begun = time.monotonic()
        process.send_signal(number)
        if again:
            assert process.stdout.readline() == "heard\n"
            process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        return process.returncode, stderr.splitlines(), time.monotonic() - begun


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("held", ["", HELD], ids=["at once", "held back"])
def test_a_signal_is_answered_before_what_it_ends_is_left(number: signal.Signals, held: str) -> None:
    """While Ray starts, the signal is held back until the block ends."""
    code, lines, seconds = signalled(number, IN_PYTHON, held=held)
    assert (code, lines[1:]) == (0, ["Interrupted", "left"])
    assert lines[0].startswith(f"interrupted by {number.name}: ")
    assert ("Ctrl-C again" in lines[0]) == bool(held), "else there is nothing left to cancel"
    assert seconds > 1.0 or not held


def test_amid_the_trials_the_first_signal_lets_tune_end_and_the_second_does_not() -> None:
    """The block goes on after the first signal for as long as it needs, as Tune does."""
    _, first, _ = signalled(signal.SIGINT, AS_TUNE)
    assert "Ctrl-C again" in first[0]
    assert first[1:] == ["left"]
    _, both, _ = signalled(signal.SIGINT, AS_TUNE, again=True)
    assert both[0] == first[0]
    assert both[1].startswith("interrupted by SIGINT: ")
    assert both[2:] == ["Interrupted", "left"]


def test_the_sweep_stops_if_nobody_reads_the_answer() -> None:
    assert signalled(signal.SIGINT, IN_PYTHON, say="lambda line: time.sleep(600)")[:2] == (0, ["Interrupted", "left"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_the_main_thread_never_hears_is_answered_and_ends_the_process(number: signal.Signals) -> None:
    """As while a call of Ray's waits for a head that does not answer."""
    code, (answer, *last), _ = signalled(number, IN_C, patience=1.5)
    assert answer.startswith(f"interrupted by {number.name}: ")
    assert (code, last) == (130, ["told at last"])


def test_what_is_held_back_is_not_held_back_for_ever() -> None:
    """Ray's head may have died while it starts."""
    code, lines, _ = signalled(signal.SIGINT, IN_PYTHON.replace("40", "400"), patience=1.0, held=HELD)
    assert (code, lines[1:]) == (130, ["told at last"])


def test_sigterm_is_heard_again_after_a_library_has_taken_it_away_in_another_thread() -> None:
    heard: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    def take_away() -> None:
        with preserve_sigterm_handler():
            ctypes.CDLL(None).signal(int(signal.SIGTERM), None)

    before = signal.signal(signal.SIGTERM, note)
    try:
        thread = threading.Thread(target=take_away)
        thread.start()
        thread.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
