"""How Ctrl-C and SIGTERM stop a sweep in order: what is finished stays, and what is half started is started first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The user stopped the sweep; everything finished is on disk."""


_interrupted = threading.Event()


def is_interrupted() -> bool:
    """Whether the sweep was told to stop."""
    return _interrupted.is_set()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop the sweep in order.

    While Tune's loop runs it is told to end by the SIGUSR1 it listens to; else, or at the second signal,
    KeyboardInterrupt ends whatever goes on.
    """

    def stop(number: int, frame: object) -> None:
        first = not _interrupted.is_set()
        _interrupted.set()
        if first and callable(signal.getsignal(signal.SIGUSR1)):
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            raise KeyboardInterrupt

    _interrupted.clear()
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
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, other in before.items():  # inside, Ray has put its own on SIGTERM
            signal.signal(number, other)


def forget_tune() -> None:
    """Tune's loop is over: a signal ends what goes on now, and is not passed on to the loop."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
