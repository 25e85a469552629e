"""Stop a sweep on Ctrl-C, SIGTERM and SIGHUP, and keep all finished results.

One handler serves all three signals:

- While Ray starts (:func:`defer_signals`), the sweep stops as soon as Ray has started.
- While trials run, the handler sends SIGUSR1, which ends Tune's loop.
- At any other time, and for a second signal, the handler raises KeyboardInterrupt.

If a Ray call blocks the main thread, the handler cannot run. In this case, another thread ends the process after 20 s.
"""

from __future__ import annotations

import ctypes
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


class Interrupted(Exception):
    """Raised if a signal stopped the sweep; all finished results are on disk."""


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TIME_LIMIT = 20.0
"""Seconds after which the process ends if a signal has had no effect."""
_REPORT_AFTER = 0.5
"""Seconds after which an unhandled signal is reported."""
_PRINT_TIMEOUT = 2.0
"""Seconds to wait until the last lines are printed. Printing may hang if stderr has no reader."""

_STOPPING_TRIALS = (
    "stopping the running trials, then writing the report; press Ctrl-C again to cancel the step in progress"
)
_STOPPING = "cancelling the step in progress"
_STARTING_RAY = f"stopping as soon as Ray has started, in at most {_TIME_LIMIT:g} s; press Ctrl-C again to stop at once"
_UNHANDLED = f"waiting for a call to Ray that cannot be interrupted; the process ends within {_TIME_LIMIT:g} s"


@dataclass
class _State:
    shutdown_message: str = ""
    interrupted: threading.Event = field(default_factory=threading.Event)
    aborted: threading.Event = field(default_factory=threading.Event)
    is_deferring: bool = False
    handled_at: float = -math.inf
    # A SimpleQueue, because signal handlers may call its put().
    lines: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)


_state = _State()


def is_interrupted() -> bool:
    """Return whether a signal has interrupted the sweep."""
    return _state.interrupted.is_set()


@contextmanager
def interruptible(shutdown_message: str, *, say: Callable[[str], object]) -> Iterator[None]:
    """Handle Ctrl-C, SIGTERM and SIGHUP while the block runs. If a signal stops the block, raise :class:`Interrupted`.

    Args:
        shutdown_message: the text printed before the process is ended because a Ray call blocks the main thread.
        say: the function that prints a line. Called in another thread.
    """
    global _state
    _state = _State(shutdown_message)
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = [number for number in _SIGNALS if number != signal.SIGHUP or not is_nohup]
    old_handlers = {number: signal.signal(number, _handle) for number in numbers}
    try:
        with _lines_printed(say), _unhandled_signals_watched():
            yield
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def _handle(number: int, frame: object) -> None:
    if number == signal.SIGHUP:
        _detach_from_terminal()
    _state.handled_at = time.monotonic()
    if _state.aborted.is_set():
        raise KeyboardInterrupt
    is_first = not _state.interrupted.is_set()
    _state.interrupted.set()
    if is_first and _state.is_deferring:
        _report(number, _STARTING_RAY)
    elif is_first and callable(signal.getsignal(signal.SIGUSR1)):
        _report(number, _STOPPING_TRIALS)
        os.kill(os.getpid(), signal.SIGUSR1)
    else:
        _report(number, _STOPPING)
        raise KeyboardInterrupt


def _report(number: int, text: str) -> None:
    _state.lines.put(f"interrupted by {signal.Signals(number).name}: {text}")


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay the effect of the first signal until the block ends. If this takes more than 20 s, end the process."""
    _state.is_deferring = True
    old_handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        _state.is_deferring = False
        for number, handler in old_handlers.items():  # restore the handlers, because Ray installs one for SIGTERM
            signal.signal(number, handler)
    if is_interrupted():
        raise KeyboardInterrupt


def detach_tune() -> None:
    """Reset the handler of SIGUSR1, so that signals no longer stop Tune's loop. Must be called after the loop."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def abort_main_thread() -> None:
    """From another thread, raise KeyboardInterrupt in the main thread. :func:`is_interrupted` does not change."""
    _state.aborted.set()
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def _lines_printed(say: Callable[[str], object]) -> Iterator[None]:
    lines = _state.lines

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
        printer.join(_PRINT_TIMEOUT)


@contextmanager
def _unhandled_signals_watched() -> Iterator[None]:
    """Report a signal that is not handled within 0.5 s. End the process if a signal is unhandled or delayed for 20 s.

    Python runs signal handlers only between two instructions of the main thread. So no handler runs during a Ray call
    that waits for a lost head.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    stop = threading.Event()

    def watch() -> None:
        with open(reader, "rb", buffering=0) as signals:
            while content := signals.read(1):
                number = content[0]
                arrival = time.monotonic()
                is_reported = False
                while number in _SIGNALS:
                    # Allow one second, because the handler may have run before this thread reads the signal.
                    is_unhandled = _state.handled_at < arrival - 1.0
                    if not is_unhandled and not _is_deferred():
                        break
                    if stop.wait(0.1):
                        return
                    waited = time.monotonic() - arrival
                    is_from_this_process = _state.aborted.is_set()  # by abort_main_thread, after the loss of Ray's head
                    is_reportable = is_unhandled and not is_reported and not is_from_this_process
                    if is_reportable and waited > _REPORT_AFTER:
                        _report(number, _UNHANDLED)
                        is_reported = True
                    if waited > _TIME_LIMIT:
                        _end_process()

    old_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, name="unhandled signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_fd)
        stop.set()
        os.close(writer)


def _is_deferred() -> bool:
    return _state.is_deferring and is_interrupted()


def _end_process() -> None:
    try:
        os.set_blocking(2, False)
        os.write(2, _state.shutdown_message.encode())
    finally:  # stderr may be closed
        os._exit(130)


def _detach_from_terminal() -> None:
    """Redirect the standard streams from a closed terminal to the null device, so that writes raise no error."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
            is_lost = os.isatty(descriptor)
        except OSError:
            is_lost = True
        if is_lost:
            os.dup2(null, descriptor)
    os.close(null)


@contextmanager
def preserve_sigterm_handler() -> Iterator[None]:
    """Keep the SIGTERM handler of this process while the block shuts Ray down. The block may run in any thread.

    Ray's C++ code resets the handler to the default, which ends the process (measured with Ray 2.60). No option of Ray
    prevents this, so a thread sets the handler again every 10 ms. The thread calls sigaction, because Python can change
    handlers only in the main thread.
    """
    libc = ctypes.CDLL(None)
    handler = ctypes.create_string_buffer(256)  # at least the size of the C struct sigaction
    libc.sigaction(int(signal.SIGTERM), None, handler)
    stop = threading.Event()

    def restore() -> None:
        while not stop.wait(0.01):
            libc.sigaction(int(signal.SIGTERM), handler, None)

    thread = threading.Thread(target=restore, name="SIGTERM", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        libc.sigaction(int(signal.SIGTERM), handler, None)
