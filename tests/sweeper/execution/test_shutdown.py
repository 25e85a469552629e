"""Signals: the printed answer, signals that the main thread cannot handle, and handlers that a library replaces."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sweeper.execution.shutdown import preserve_sigterm_handler

PROGRAM = """
import ctypes, signal, sys, time
from sweeper.execution import shutdown
shutdown._TIME_LIMIT, shutdown._PRINT_TIMEOUT = {patience}, 0.5
mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)
try:
    with shutdown.interruptible("farewell\\n", say={say}){deferred}:
        print("ready", flush=True)
        {what}
        print("block over", flush=True)
except shutdown.Interrupted:
    print("Interrupted", file=sys.stderr)
print("left", file=sys.stderr)
"""
IN_C = "lock(mutex)"
IN_PYTHON = "[time.sleep(0.05) for _ in range(40)]"
AS_TUNE = f"""signal.signal(signal.SIGUSR1, lambda *_: print("received", flush=True)); {IN_PYTHON}"""
DEFERRED = ", shutdown.defer_signals()"


def hear_signals() -> None:
    """Do not ignore signals in a child process, even if pytest runs in the background or under nohup."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def signalled(
    number: signal.Signals,
    what: str,
    *,
    patience: float = 10.0,
    deferred: str = "",
    say: str = "lambda line: print(line, file=sys.stderr, flush=True)",
    again: bool = False,
) -> tuple[int, list[str], bool]:
    """Return the exit code, the lines on stderr, and whether the block ran to its end.

    If ``again`` is true, the signal is sent a second time as soon as the first signal has been handled.
    """
    program = PROGRAM.format(patience=patience, deferred=deferred, say=say, what=what)
    command = [sys.executable, "-c", program]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "preexec_fn": hear_signals}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(number)
        if again:
            assert process.stdout.readline() == "received\n"
            process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stderr.splitlines(), "block over" in stdout


@pytest.mark.parametrize(
    ("number", "deferred"), [(signal.SIGINT, ""), (signal.SIGTERM, ""), (signal.SIGHUP, ""), (signal.SIGTERM, DEFERRED)]
)
def test_a_signal_is_reported_before_the_block_ends(number: signal.Signals, deferred: str) -> None:
    """While Ray starts, the effect of the signal is deferred until the block ends."""
    code, lines, is_complete = signalled(number, IN_PYTHON, deferred=deferred)
    assert (code, lines[1:], is_complete) == (0, ["Interrupted", "left"], bool(deferred))
    assert lines[0].startswith(f"interrupted by {number.name}: ")
    assert ("Ctrl-C again" in lines[0]) == bool(deferred), "otherwise there is nothing left to cancel"


def test_while_trials_run_the_first_signal_ends_tunes_loop_and_the_second_ends_the_block() -> None:
    _, first, is_complete = signalled(signal.SIGINT, AS_TUNE)
    assert "Ctrl-C again" in first[0]
    assert (first[1:], is_complete) == (["left"], True)
    _, both, is_complete = signalled(signal.SIGINT, AS_TUNE, again=True)
    assert both[0] == first[0]
    assert both[1].startswith("interrupted by SIGINT: ")
    assert (both[2:], is_complete) == (["Interrupted", "left"], False)


def test_the_sweep_stops_even_if_printing_blocks() -> None:
    assert signalled(signal.SIGINT, IN_PYTHON, say="lambda line: time.sleep(600)")[:2] == (0, ["Interrupted", "left"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "what", "deferred"),
    [
        (signal.SIGINT, IN_C, ""),  # as in a call to Ray that waits for a head that does not respond
        (signal.SIGTERM, IN_C, ""),
        (signal.SIGINT, IN_PYTHON.replace("40", "400"), DEFERRED),  # as if Ray's head died while Ray starts
    ],
    ids=["SIGINT", "SIGTERM", "deferred"],
)
def test_a_signal_without_effect_ends_the_process_after_a_while(
    number: signal.Signals, what: str, deferred: str
) -> None:
    code, (answer, *last), _ = signalled(number, what, patience=1.5, deferred=deferred)
    assert answer.startswith(f"interrupted by {number.name}: ")
    assert (code, last) == (130, ["farewell"])


def test_the_sigterm_handler_is_restored_after_a_library_resets_it_in_another_thread() -> None:
    def reset() -> None:
        with preserve_sigterm_handler():
            ctypes.CDLL(None).signal(int(signal.SIGTERM), None)

    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        thread = threading.Thread(target=reset)
        thread.start()
        thread.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
