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

STUCK = """
import ctypes, signal, sys
from sweeper import interruption
interruption._PATIENCE = 1.0
with interruption.interruptible("told at last\\n"):
    print("here", flush=True)
    {what}
"""
IN_C = "mutex = ctypes.create_string_buffer(64); lock = ctypes.CDLL(None).pthread_mutex_lock; lock(mutex); lock(mutex)"
IN_PYTHON = "import time; [time.sleep(0.05) for _ in range(60)]; print('done')"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_the_main_thread_never_hears_ends_the_process(number: signal.Signals) -> None:
    """As while a call of Ray's waits for a head that does not answer."""
    program = [sys.executable, "-c", STUCK.format(what=IN_C)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "told at last\n")


def test_what_hears_a_signal_has_the_time_it_needs() -> None:
    """Here the handler only notes it, as while Ray starts."""
    held = f"with interruption.held_back(): {IN_PYTHON.rpartition(';')[0]}"
    program = [sys.executable, "-c", STUCK.format(what=held)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert time.monotonic() - begun > 1.5
    assert "told at last" not in told
    assert "Interrupted" in told


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
