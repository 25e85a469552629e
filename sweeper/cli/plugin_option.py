"""``--plugin`` and ``--template FILE``: a user's own parts, read before anything looks at what there is to choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sweeper.cli.errors import CHECKS


class TemplateName(click.ParamType[Any]):
    """The name of a template; that of a file becomes the template in it."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The template's name."""
        path = Path(value)
        if ctx is None or not (path.suffix or path.is_file() or len(path.parts) > 1):
            return value
        _read(ctx, [value])
        return path.stem


def _take(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    _read(ctx, values)
    return values


def _read(ctx: click.Context, paths: Sequence[str]) -> None:
    """Use the plug-ins; what is wrong with them is told before the command begins."""
    from trainables import plugins

    problems: list[str] = []
    for path in paths:
        try:
            plugins.use([plugins.read(Path(path).absolute(), place=str(Path(path).absolute()))])
        except plugins.PluginError as error:
            problems += error.problems
    checks = ctx.meta.setdefault(CHECKS, [_whole])
    if problems:
        checks.insert(0, lambda: problems)


def _whole() -> list[str]:
    """What does not go together with the project's own parts; a broken one is told first, and alone."""
    from trainables import plugins

    if not plugins.active():
        return []
    from sweeper.store.columns import plugin_problems
    from trainables.plugin_clashes import clashes

    return clashes() or plugin_problems()


PLUGIN = click.option(
    "--plugin",
    multiple=True,
    is_eager=True,
    callback=_take,
    metavar="FILE",
    help="A Python file with parts of your own: methods, metrics, data, models, templates (docs/extend.md); repeats.",
)
