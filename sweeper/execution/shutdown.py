"""How Ctrl-C, SIGTERM and SIGHUP stop a sweep: what is finished stays, what is half started is started first.

Each signal is answered at once with a line that says what happens next. The handler only puts the line into a queue,
which is safe at any point of the main thread; a thread prints it, so that it appears above a live display.
"""

from __future__ import annotations

import ctypes
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Interrupted(Exception):
    """The user stopped the sweep; everything finished is on disk."""


_PATIENCE = 20.0
"""Seconds until a signal ends the process where the main thread has not heard it, or must not yet."""
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON = 0.5
"""Seconds until a signal counts as not handled yet, which is then reported."""
_LAST_LINES = 2.0
"""Seconds that the end of the context waits for lines that are not printed yet: nobody may read stderr."""

_AMID_TRIALS = "stopping the running trials, then writing the report; press Ctrl-C again to cancel the step in progress"
_AT_ONCE = "cancelling the step in progress"
_RAY_STARTS = f"stopping when Ray has started, in {_PATIENCE:g} s at the latest; press Ctrl-C again to stop at once"
_NOT_HANDLED = f"waiting for a call that cannot be interrupted; the process ends in {_PATIENCE:g} s at the latest"

_heard_at = [-math.inf]
_last_words = ["error: interrupted\n"]
_lines = [queue.SimpleQueue[str | None]()]
_interrupted = threading.Event()
_broken_off = threading.Event()


def is_interrupted() -> bool:
    """Whether the sweep was told to stop."""
    return _interrupted.is_set()


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def interruptible(unhandled: str = _last_words[0], *, say: Callable[[str], object] = _print) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM, and SIGHUP of a closed terminal, stop the sweep in order.

    While Tune's loop runs, it is stopped by the SIGUSR1 that it listens to. At any other time, or at the second signal,
    KeyboardInterrupt ends the step in progress. ``say`` is called in another thread with a line on what happens next.
    If a call into Ray keeps the main thread from handling the signal, the process ends, and prints ``unhandled``.
    """

    def stop(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        _heard_at[0] = time.monotonic()
        if _broken_off.is_set():
            raise KeyboardInterrupt
        first = not _interrupted.is_set()
        _interrupted.set()
        if first and callable(signal.getsignal(signal.SIGUSR1)):
            _report(number, _AMID_TRIALS)
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            _report(number, _AT_ONCE)
            raise KeyboardInterrupt

    _last_words[0] = unhandled
    _interrupted.clear()
    _broken_off.clear()
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    try:
        with _printed(say), _handled_by(stop), _ended_unheard():
            yield
    except KeyboardInterrupt:
        raise Interrupted from None


@contextmanager
def defer_signals() -> Iterator[None]:
    """Let a first signal take effect at the end of the block, which has a while for that; a second ends it at once."""
    held = threading.Timer(_PATIENCE, _end_process)
    held.daemon = True

    def note(number: int, frame: object) -> None:
        _heard_at[0] = time.monotonic()
        if _interrupted.is_set():
            _report(number, _AT_ONCE)
            raise KeyboardInterrupt
        _interrupted.set()
        _report(number, _RAY_STARTS)
        held.start()

    try:
        with _handled_by(note):
            yield
    finally:
        held.cancel()
    if _interrupted.is_set():
        raise KeyboardInterrupt


def _report(number: int, what: str) -> None:
    _lines[0].put(f"interrupted by {signal.Signals(number).name}: {what}")


@contextmanager
def _printed(say: Callable[[str], object]) -> Iterator[None]:
    """Print the lines of :func:`_report` while the block runs, all of them before it is left."""
    lines = _lines[0] = queue.SimpleQueue()

    def print_lines() -> None:
        for line in iter(lines.get, None):
            with suppress(OSError):
                say(line)

    printer = threading.Thread(target=print_lines, name="interruption", daemon=True)
    printer.start()
    try:
        yield
    finally:
        lines.put(None)
        printer.join(_LAST_LINES)


@contextmanager
def _ended_unheard() -> Iterator[None]:
    """End the process if a signal has arrived and its handler has not run for long; report the wait soon.

    Python runs handlers in the main thread, between two of its own instructions: not while a call into Ray waits for a
    head that does not answer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    over = threading.Event()

    def watch() -> None:
        with open(reader, "rb", buffering=0) as signals:
            while come := signals.read(1):
                came, reported = time.monotonic(), False
                # A second of grace: the handler may have run before this thread was told.
                while come[0] in _STOPPING and _heard_at[0] < came - 1.0:
                    if over.wait(0.1):
                        return
                    waited = time.monotonic() - came
                    if waited > _SOON and not reported:
                        _report(come[0], _NOT_HANDLED)
                        reported = True
                    if waited > _PATIENCE:
                        _end_process()

    earlier = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, name="unheard signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(earlier)
        over.set()
        os.close(writer)


def _end_process() -> None:
    try:
        os.set_blocking(2, False)
        os.write(2, _last_words[0].encode())
    finally:  # nobody may hear it
        os._exit(130)


@contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    numbers = list(_STOPPING)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
        numbers.remove(signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, other in before.items():  # inside, Ray has put its own on SIGTERM
            signal.signal(number, other)


@contextmanager
def preserve_sigterm_handler() -> Iterator[None]:
    """Have SIGTERM handled as before, whatever the block does to it: Ray, as it is left, has it end the process.

    From any thread, and so in C: Python changes handlers in the main thread alone.
    """
    libc, before, over = ctypes.CDLL(None), ctypes.create_string_buffer(256), threading.Event()
    libc.sigaction(int(signal.SIGTERM), None, before)

    def keep() -> None:
        while not over.wait(0.01):
            libc.sigaction(int(signal.SIGTERM), before, None)

    keeper = threading.Thread(target=keep, name="SIGTERM", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        libc.sigaction(int(signal.SIGTERM), before, None)


def abort_main_thread() -> None:
    """End at once what goes on in the main thread, by KeyboardInterrupt; nobody asked for it, so it is no interruption.

    For other threads, which cannot raise there.
    """
    _broken_off.set()
    os.kill(os.getpid(), signal.SIGINT)


def _leave_terminal() -> None:
    """The terminal is closed: what is still printed to it would fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor) or not _is_open(descriptor):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def detach_tune() -> None:
    """Tune's loop is over: a signal ends what goes on now, and is not passed on to the loop."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
