"""Error messages on stderr and exit codes; no traceback for a user's mistake."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, ParamSpec, TypeVar

import click

FAILED, INTERRUPTED = 1, 130
NOBODY_READS = 141
"""128 + SIGPIPE: the exit code that a shell reports for a tool whose reader, such as ``head``, has left."""

P = ParamSpec("P")
R = TypeVar("R")


def say(line: str) -> None:
    """Print a line on stderr, if possible."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


def exit_with(problems: Sequence[str], code: int) -> NoReturn:
    """Print the problems, one a line, and exit."""
    for problem in problems:
        say(f"error: {problem}")
    sys.exit(code)


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors of classes with an ``exit_code``, which a user can fix, into messages and exit codes."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = command(*args, **kwargs)
            sys.stdout.flush()  # here a closed pipe is an exception; at exit it would be a message
            return result
        except KeyboardInterrupt:
            exit_with(["interrupted"], INTERRUPTED)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and _stdout_is_closed():
                sys.exit(NOBODY_READS)
            exit_with([f"{error.filename or 'the disk'}: {error.strerror or error}"], FAILED)
        except Exception as error:
            if (code := getattr(error, "exit_code", None)) is None:  # a bug
                raise
            exit_with(getattr(error, "problems", [str(error)]), code)

    return wrapped


@contextlib.contextmanager
def continues_with(command: str, note: str = "") -> Iterator[None]:
    """If the work inside is interrupted, print the command that continues it, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted{note}. Continue from the last saved state with:\n  {command}")
        sys.exit(INTERRUPTED)


def _stdout_is_closed() -> bool:
    """Return whether the reader of stdout has left. If so, redirect stdout to nowhere, so that the exit is quiet.

    A broken socket raises the same error, and that one must be reported.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # a program that calls the command has replaced stdout
        return False
    pipe = select.poll()
    pipe.register(descriptor, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return True
