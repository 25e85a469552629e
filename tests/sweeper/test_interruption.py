"""Signals that the main thread cannot hear, and those that a library takes away."""

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

from sweeper.interruption import keeping_sigterm

PROGRAM = """
import ctypes, time
from sweeper import interruption
interruption._PATIENCE = {patience}
mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)
with interruption.interruptible("told at last\\n"){held}:
    print("here", flush=True)
    {what}
"""
IN_C = "lock(mutex)"
IN_PYTHON = "[time.sleep(0.05) for _ in range(40)]"
HELD = ", interruption.held_back()"


def signalled(program: str, number: signal.Signals) -> tuple[int, str, float]:
    """Its exit code, what it said on stderr, and the seconds from the signal to its end."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        time.sleep(0.3)
        begun = time.monotonic()
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
        return process.returncode, told, time.monotonic() - begun


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_the_main_thread_never_hears_ends_the_process(number: signal.Signals) -> None:
    """As while a call of Ray's waits for a head that does not answer."""
    code, told, _ = signalled(PROGRAM.format(patience=1.0, held="", what=IN_C), number)
    assert (code, told) == (130, "told at last\n")


def test_what_hears_a_signal_has_the_time_it_needs() -> None:
    """Here the handler only notes it, as while Ray starts."""
    code, told, seconds = signalled(PROGRAM.format(patience=10.0, held=HELD, what=IN_PYTHON), signal.SIGINT)
    assert code == 1
    assert seconds > 1.0
    assert "told at last" not in told
    assert "Interrupted" in told


def test_what_is_held_back_is_not_held_back_for_ever() -> None:
    """Ray's head may have died while it starts."""
    code, told, _ = signalled(
        PROGRAM.format(patience=1.0, held=HELD, what=IN_PYTHON.replace("40", "400")), signal.SIGINT
    )
    assert (code, told) == (130, "told at last\n")


def test_sigterm_is_heard_again_after_a_library_has_taken_it_away_in_another_thread() -> None:
    heard: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    def take_away() -> None:
        with keeping_sigterm():
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
