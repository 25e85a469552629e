"""Options given as keywords, read and checked as those of a command: the same names, defaults and problems."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from search_spaces.messages import did_you_mean
from sweeper.cli.config_file import typed
from sweeper.cli.errors import Problems, check_first

_NOT_HERE = ("as_json", "help", "dry_run", "measure")


@contextmanager
def options_of(command: click.Command, given: Mapping[str, object]) -> Iterator[tuple[dict[str, Any], str]]:
    """What ``command`` reads of the options ``given`` by name, and the line to type for the same.

    A list is an option that repeats (of ``metrics`` the names), a mapping ``option`` has values by name, None is not
    given. The checks of the command belong inside the block.

    Raises:
        TypeError: there is no such option.
        Problems: a value cannot be read.
    """
    assert command.name is not None
    arguments = _arguments(command, given)
    try:
        context = command.make_context(command.name, list(arguments))
    except click.UsageError as error:
        raise Problems([error.format_message()]) from None
    with context:
        check_first()
        yield context.params, shlex.join(["python", "-m", "sweeper", command.name, *typed(arguments)])


def _arguments(command: click.Command, given: Mapping[str, object]) -> list[str]:
    known = {str(item.name): item for item in command.params if item.name not in _NOT_HERE}
    if unknown := [name for name in given if name not in known]:
        near = did_you_mean(unknown[0], known)
        raise TypeError(f"{command.name} has no option {', '.join(unknown)}{near and f': {near}'}")
    found: list[str] = []
    for name, value in given.items():
        item = known[name]
        if isinstance(item, click.Argument):
            found.append(str(value))
        elif isinstance(value, bool):
            flags = item.opts if value else item.secondary_opts
            found += flags[:1]
        else:
            found += [part for text in _texts(item, value) for part in (item.opts[0], text)]
    return found


def _texts(item: click.Parameter, value: object) -> list[str]:
    """A value as it would be typed, each of several."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [f"{name}={part}" for name, several in value.items() for part in _each(several)]
    if item.multiple:
        return [str(part) for part in _each(value)]
    return [",".join(map(str, _each(value)))]


def _each(value: object) -> Sequence[object]:
    return [value] if isinstance(value, str | Path) or not isinstance(value, Sequence) else value
