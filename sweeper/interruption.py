"""How Ctrl-C, SIGTERM and SIGHUP stop a sweep: what is finished stays, what is half started is started first."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The user stopped the sweep; everything finished is on disk."""


_PATIENCE = 20.0
"""Seconds until a signal ends the process where the main thread has not heard it, or must not yet."""
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_heard_at = [-math.inf]
_last_words = ["error: interrupted\n"]
_interrupted = threading.Event()
_broken_off = threading.Event()


def is_interrupted() -> bool:
    """Whether the sweep was told to stop."""
    return _interrupted.is_set()


@contextmanager
def interruptible(unheard: str = _last_words[0]) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM, and SIGHUP of a closed terminal, stop the sweep in order.

    While Tune's loop runs it is told to end by the SIGUSR1 it listens to; else, or at the second signal,
    KeyboardInterrupt ends whatever goes on. Where a call of Ray's does not let the main thread hear it the process
    ends, with ``unheard`` as its last words.
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
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            raise KeyboardInterrupt

    _last_words[0] = unheard
    _interrupted.clear()
    _broken_off.clear()
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    try:
        with _handled_by(stop), _ended_unheard():
            yield
    except KeyboardInterrupt:
        raise Interrupted from None


@contextmanager
def held_back() -> Iterator[None]:
    """Let a first signal take effect at the end of the block, which has a while for that; a second ends it at once."""
    held = threading.Timer(_PATIENCE, _end_process)
    held.daemon = True

    def note(number: int, frame: object) -> None:
        _heard_at[0] = time.monotonic()
        if _interrupted.is_set():
            raise KeyboardInterrupt
        _interrupted.set()
        held.start()

    try:
        with _handled_by(note):
            yield
    finally:
        held.cancel()
    if _interrupted.is_set():
        raise KeyboardInterrupt


@contextmanager
def _ended_unheard() -> Iterator[None]:
    """End the process where a signal has come and its handler has not run for long.

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
                came = time.monotonic()
                # A second of grace: the handler may have run before this thread was told.
                while come[0] in _STOPPING and _heard_at[0] < came - 1.0:
                    if over.wait(0.1):
                        return
                    if time.monotonic() - came > _PATIENCE:
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
def keeping_sigterm() -> Iterator[None]:
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


def break_off() -> None:
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


def forget_tune() -> None:
    """Tune's loop is over: a signal ends what goes on now, and is not passed on to the loop."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
