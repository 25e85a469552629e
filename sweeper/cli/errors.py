"""How commands fail: plain words on stderr and the contract's exit codes; no traceback for a user's mistake."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar

import click

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
CHECKS = "sweeper.checks"
"""In a context's meta: what is looked at before the command begins, functions that return problems."""
NOBODY_READS = 141
"""128 + SIGPIPE: what a shell reports of a tool whose reader, ``head`` for one, has gone."""

P = ParamSpec("P")
R = TypeVar("R")


class Problems(Exception):
    """Everything wrong with what the user gave, found before any work started."""

    exit_code = WRONG_USAGE

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))  # several checks may find the same
        super().__init__("; ".join(self.problems))


def refuse(problems: Sequence[str]) -> None:
    """Raise :class:`Problems` if there are any."""
    if problems:
        raise Problems(problems)


def check_first() -> None:
    """Raise :class:`Problems` for what stands before everything else, such as a plug-in that is broken."""
    context = click.get_current_context(silent=True)
    refuse([problem for check in context.meta.get(CHECKS, ()) for problem in check()] if context else [])


def say(line: str) -> None:
    """Print it on stderr, if that can be."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


def exit_with(problems: Sequence[str], code: int) -> None:
    """Print the problems, one a line, and exit."""
    for problem in problems:
        say(f"error: {problem}")
    sys.exit(code)


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors a user can mend into messages and exit codes: those of a class that says its ``exit_code``."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            check_first()
            result = command(*args, **kwargs)
            sys.stdout.flush()  # here, where a closed pipe is still an exception and not a complaint at exit
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
        raise AssertionError("unreachable")

    return wrapped


@contextlib.contextmanager
def goes_on_with(command: str, note: str = "") -> Iterator[None]:
    """Where the work inside is interrupted, print the command that goes on with it, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted{note}. Go on from what was last saved with:\n  {command}")
        sys.exit(INTERRUPTED)


def _stdout_is_closed() -> bool:
    """Whether nobody reads stdout any more; then it leads nowhere from here on, so that the exit is quiet.

    A socket breaks with the same error, and that one must be told.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # what replaces stdout in a program that calls the command
        return False
    pipe = select.poll()
    pipe.register(descriptor, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return True
