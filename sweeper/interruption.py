"""How Ctrl-C and SIGTERM stop a sweep in order: what is finished stays, and what is half started is started first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The user stopped the sweep; everything finished is on disk."""


def is_interrupted() -> bool:
    """Whether the sweep was told to stop."""
    return _interrupted.is_set()


_interrupted = threading.Event()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop the sweep in order; see :func:`_listen`."""
    _interrupted.clear()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    _listen()
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Let a first signal take effect at the end of the block; a second one ends it at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: object) -> None:
        if _interrupted.is_set():
            raise KeyboardInterrupt
        _interrupted.set()

    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():  # Ray has put its own on SIGTERM
            signal.signal(number, handler)
    if _interrupted.is_set():
        raise KeyboardInterrupt


def forget_tune() -> None:
    """Tune's loop is over: a signal ends what goes on now, and is not passed on to the loop."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def _listen() -> None:
    """Take SIGINT and SIGTERM: while Tune's loop runs it is told to end by the SIGUSR1 it listens to; else, or at the
    second signal, KeyboardInterrupt ends whatever goes on."""

    def stop(number: int, frame: object) -> None:
        first = not _interrupted.is_set()
        _interrupted.set()
        if first and callable(signal.getsignal(signal.SIGUSR1)):
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            raise KeyboardInterrupt

    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
