"""Print errors on stderr and set exit codes. Errors that a user can fix are printed without a traceback."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, ParamSpec, TypeVar

import click

from search_spaces.common.messages import printable

FAILED, INTERRUPTED = 1, 130
CLOSED_PIPE = 141
"""The exit code if the program that reads stdout (for example ``head``) has exited: 128 + SIGPIPE."""

P = ParamSpec("P")
R = TypeVar("R")


def say(line: str) -> None:
    """Print a line on stderr, without control characters. If stderr cannot be written, do nothing."""
    with contextlib.suppress(OSError):
        click.echo(printable(line), err=True)


def exit_with(problems: Sequence[str], code: int) -> NoReturn:
    """Print one problem per line on stderr, and exit."""
    for problem in problems:
        say(f"error: {problem}")
    sys.exit(code)


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Make a command print certain errors as messages without a traceback, and exit with an exit code.

    These errors are KeyboardInterrupt, OSError and exceptions with an ``exit_code``. Other exceptions are raised.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = command(*args, **kwargs)
            sys.stdout.flush()  # raises the error of a closed pipe here; at exit, Python would print it
            return result
        except KeyboardInterrupt:
            say("interrupted")  # by the user, so it is no error
            sys.exit(INTERRUPTED)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and _redirect_closed_stdout():
                sys.exit(CLOSED_PIPE)
            exit_with([f"{error.filename or 'the disk'}: {error.strerror or error}"], FAILED)
        except Exception as error:
            if (code := getattr(error, "exit_code", None)) is None:  # a bug in this project
                raise
            exit_with(getattr(error, "problems", [str(error)]), code)

    return wrapped


@contextlib.contextmanager
def continues_with(command: str, note: str = "") -> Iterator[None]:
    """If the ``with`` block raises KeyboardInterrupt, print ``command`` and exit.

    A user can continue the interrupted work with the command line ``command``.
    """
    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted{note}. Continue from the last saved state with:\n  {command}")
        sys.exit(INTERRUPTED)


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt if SIGTERM or SIGHUP arrives in the ``with`` block."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous_handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _redirect_closed_stdout() -> bool:
    """Return whether the program that reads stdout has exited. If it has, redirect stdout to /dev/null."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # the calling program has replaced stdout
        return False
    # A broken socket raises a BrokenPipeError too, so the error does not prove that the reader has exited.
    pipe = select.poll()
    pipe.register(descriptor, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)  # otherwise, Python would print an error at exit
    return True
