"""How options are declared and read: those that are fields of a trial from its description, numbers leniently.

A value that is no number becomes a problem, not the end of reading, so that all problems are told at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from search_spaces.fields import Field, Role
from sweeper.cli.config_file import PROBLEMS
from sweeper.cli.plugin_option import TemplateName
from sweeper.settings.resources import AUTO
from trainables.spec import FIELDS

Decorator = Callable[[Any], Any]


class Lenient(click.ParamType[Any]):
    """A number, or a word for one; anything else is noted in the context and read as missing."""

    def __init__(self, kind: type[int] | type[float], words: Mapping[str, float] | None = None) -> None:
        self.name = "whole number" if kind is int else "number"
        self._kind = kind
        self._words = words or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or None and a problem in ``ctx.meta``."""
        try:
            return self._kind(self._words.get(value, value))
        except (TypeError, ValueError):
            _note(param, ctx, f"must be a {self.name}, got '{value}'{_one_by_one(value, param)}")
            return None


class GpusPerTrial(Lenient):
    """A number, or ``auto``."""

    def __init__(self) -> None:
        super().__init__(float)
        self.name = "number or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number or the word, or None and a problem in ``ctx.meta``."""
        return value if value == AUTO else super().convert(value, param, ctx)


class OneName(click.ParamType[Any]):
    """A name of an option that repeats; several in one value are noted and read as missing."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name, or None and a problem in ``ctx.meta``."""
        if again := _one_by_one(value, param):
            _note(param, ctx, f"takes one name at a time, got '{value}'{again}")
            return None
        return value


NUMBER = Lenient(float)
GPUS = GpusPerTrial()
WHOLE = Lenient(int)
METHOD_OPTION = click.option("--option", multiple=True, metavar="NAME=VALUE", help="A method's own option; repeats.")
OWN = ("method", "lr", "auto_lr", "seed")
"""Fields whose options commands declare one by one: of a sweep they take several values."""


class Names(click.ParamType[Any]):
    """``NAME,...`` as a tuple of names."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The names, each once; none at all is a problem in ``ctx.meta``."""
        names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        if not names and param is not None:
            _note(param, ctx, f"needs at least one name; see 'python -m sweeper list {param.name}'")
        return names


def field(
    name: str, *, help: str | None = None, otherwise: str | None = None, multiple: bool = False, default: Any = None
) -> Decorator:
    """The option of one field of a trial; ``help`` and what it is ``otherwise`` replace the description's.

    Without a ``default`` what is not given is None, and filled in where the spec is made.
    """
    item = FIELDS[name]
    text = help or item.help
    if shown := otherwise or item.otherwise or _plain(item.default):
        text += f"  [default: {shown}]"
    if item.kind is bool:
        negated = f"/--no-{item.flag.removeprefix('--')}" if item.default else ""
        return click.option(item.flag + negated, name, is_flag=True, default=None, help=text)
    if not multiple:
        return click.option(item.flag, name, type=_type(item), default=default, help=text)
    kind = OneName() if item.kind is str else _type(item)
    return click.option(item.flag, name, type=kind, multiple=True, callback=_read, help=text)


def fields(*roles: Role, but: Collection[str] = ()) -> Decorator:
    """The options of all fields of these roles, in their order, apart from those of :data:`OWN`."""

    def decorate(function: Any) -> Any:
        for item in reversed(list(FIELDS.values())):
            if item.role in roles and item.flag and item.name not in (*OWN, *but):
                function = field(item.name)(function)
        return function

    return decorate


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a trial the command line says, but for those that commands read themselves."""
    return {name: given[name] for name in FIELDS if name not in OWN and given.get(name) is not None}


def given_problems() -> list[str]:
    """Return the problems with the command line itself: values that cannot be read, --measure without --dry-run."""
    context = click.get_current_context()
    problems = list(context.meta.get(PROBLEMS, []))
    if context.params.get("measure") and not context.params.get("dry_run"):
        problems.append("--measure needs --dry-run: it times one epoch for the estimate that --dry-run prints")
    return problems


def read_method_options(given: Mapping[str, Any], problems: list[str]) -> dict[str, list[float]]:
    """The values of ``--option NAME=VALUE`` and ``--c`` by name, in order; what cannot be read becomes a problem."""
    found: dict[str, list[float]] = {}
    for pair in given["option"]:
        name, _, text = pair.partition("=")
        try:
            value = float(text)
        except ValueError:
            problems.append(f"--option must be NAME=VALUE with a number, got '{pair}'")
            continue
        if name.strip():
            found.setdefault(name.strip(), []).append(value)
        else:
            problems.append(f"--option must be NAME=VALUE, got '{pair}', which has no name")
    several = given["c"] if isinstance(given["c"], tuple | list) else (given["c"],)
    if c := [value for value in several if value is not None]:
        found.setdefault("c", []).extend(c)
    return found


def without_effect(role: Role, why: str) -> list[str]:
    """The options of a role that were typed though they change nothing, each with ``why``."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    return [
        f"{item.flag} has no effect: {why}"
        for name, item in FIELDS.items()
        if item.role == role and name not in OWN and context.get_parameter_source(name) is typed
    ]


def _note(param: click.Parameter | None, ctx: click.Context | None, problem: str) -> None:
    if ctx is not None:
        ctx.meta.setdefault(PROBLEMS, []).append(f"{param.opts[-1] if param is not None else 'value'} {problem}")


def _read(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of an option that repeats, without those that could not be read."""
    return tuple(value for value in values if value is not None)


def _one_by_one(value: str, param: click.Parameter | None) -> str:
    """How several values in one are given to an option that repeats."""
    parts = [part for part in str(value).replace(",", " ").split() if part]
    if param is None or not param.multiple or len(parts) < 2:
        return ""
    return f"; a sweep takes several as {' '.join(f'{param.opts[-1]} {part}' for part in parts)}"


def _type(item: Field) -> click.ParamType[Any] | None:
    if item.many:
        return Names()
    if item.role == "placement":
        return click.Path()
    if item.name == "template":
        return TemplateName()
    return Lenient(item.kind, item.words) if item.kind in (int, float) else None


def _plain(default: object) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    return "" if default in (None, "", ()) or isinstance(default, bool) else str(default)
