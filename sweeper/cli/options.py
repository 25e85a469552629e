"""Define click commands with the options in :mod:`sweeper.settings.options`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from search_spaces.common.fields import Field
from sweeper.cli.errors import plain_errors
from sweeper.settings.fields import fields_of
from sweeper.settings.sources import CLI, Given, Options, Raw, with_config

Decorator = Callable[[Any], Any]
_NUMBER_METAVARS: dict[type, str] = {int: "INTEGER", float: "NUMBER"}
CONFIG = click.option(
    "--config",
    type=click.Path(),
    metavar="FILE.yaml",
    help="Read options from a file with lines such as 'trials: 32'. Options on the command line override the file. "
    "The command 'config DIR' writes such a file for a sweep.",
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the plan and estimates of time, memory and disk, without starting anything."
)


def json_option(help: str = "Print the result as JSON on stdout.") -> Decorator:
    """Return a decorator that adds the option ``--json`` as the parameter ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help=help)


def command(options_type: type[Options], *decorators: Decorator) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that turns a function into the click command with these options.

    The function is called as ``function(raw, problems, **values)``: ``raw`` contains the given option values,
    ``problems`` the error messages about the ``--config`` file, and ``values`` the values of ``decorators``.
    These decorators add arguments, and options that exist only on the command line.
    """
    fields = fields_of(options_type)

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def callback(**values: Any) -> None:
            raw, problems = given_values(options_type, values.pop("config", None))
            other_values = {key: value for key, value in values.items() if key not in fields}
            function(raw, problems, **other_values)

        decorated: Any = plain_errors(callback)
        option_decorators = [_option(field) for field in fields.values()]
        for decorator in reversed([*option_decorators, *decorators]):  # the last decorator is applied first
            decorated = decorator(decorated)
        return click.command(options_type.command)(decorated)

    return decorate


def given_values(options_type: type[Options], config: str | None) -> tuple[Raw, list[str]]:
    """Return the option values from the command line and the ``--config`` file, and the problems with the file."""
    context = click.get_current_context()
    cli_values = {}
    for key, field in fields_of(options_type).items():
        if context.get_parameter_source(key) is not click.core.ParameterSource.DEFAULT:
            value = context.params[key]
            values = value if field.repeats else [value]
            cli_values[key] = [Given(item, CLI) for item in values]
    return with_config(options_type, cli_values, config)


def _option(field: Field) -> Decorator:
    text = field.help
    if default := field.otherwise or _format_default(field.default):
        text += f"  [default: {default}]"
    if field.kind is bool:
        negation = f"/--no-{field.flag.removeprefix('--')}" if field.default else ""
        return click.option(field.flag + negation, field.name, is_flag=True, default=None, help=text)
    list_metavar = "NAME,..." if field.many else None
    return click.option(
        field.flag,
        field.name,
        type=click.Path() if field.is_path else str,  # sweeper.settings.sources parses the value
        multiple=field.repeats,
        metavar=field.metavar or _NUMBER_METAVARS.get(field.kind) or list_metavar,
        help=text,
    )


def _format_default(default: object) -> str:
    if isinstance(default, bool) or default in (None, "", ()):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)
