"""How Ctrl-C, SIGTERM and SIGHUP stop a sweep: what is finished stays, what is half started is started first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The user stopped the sweep; everything finished is on disk."""


_interrupted = threading.Event()
_broken_off = threading.Event()


def is_interrupted() -> bool:
    """Whether the sweep was told to stop."""
    return _interrupted.is_set()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM, and SIGHUP of a closed terminal, stop the sweep in order.

    While Tune's loop runs it is told to end by the SIGUSR1 it listens to; else, or at the second signal,
    KeyboardInterrupt ends whatever goes on.
    """

    def stop(number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if _broken_off.is_set():
            raise KeyboardInterrupt
        first = not _interrupted.is_set()
        _interrupted.set()
        if first and callable(signal.getsignal(signal.SIGUSR1)):
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            raise KeyboardInterrupt

    _interrupted.clear()
    _broken_off.clear()
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    try:
        with _handled_by(stop):
            yield
    except KeyboardInterrupt:
        raise Interrupted from None


@contextmanager
def held_back() -> Iterator[None]:
    """Let a first signal take effect at the end of the block; a second one ends it at once."""

    def note(number: int, frame: object) -> None:
        if _interrupted.is_set():
            raise KeyboardInterrupt
        _interrupted.set()

    with _handled_by(note):
        yield
    if _interrupted.is_set():
        raise KeyboardInterrupt


@contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
        numbers.remove(signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, other in before.items():  # inside, Ray has put its own on SIGTERM
            signal.signal(number, other)


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
