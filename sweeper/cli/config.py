"""``config``: the file that reproduces a sweep."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sweeper.cli.config_file import NOT_IN_A_FILE
from sweeper.cli.errors import plain_errors, refuse
from sweeper.store.plugins import restore_plugins

if TYPE_CHECKING:
    from sweeper.settings.sweep_settings import SweepSettings

_PLACES = ("space", "enqueue", "warm_start", "reuse")
_NOT_AGAIN = ("out", *NOT_IN_A_FILE)
_PLAIN = re.compile(r"[\w./+][\w./+@=-]*")


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--out", type=click.Path(), help="Write it to this new file instead of printing it.")
@plain_errors
def config(folder: str, out: str | None) -> None:
    """Print the file with which --config reproduces the sweep in FOLDER: its options, as they are now.

    What was typed, with the paths as they are on this machine, the plug-ins as the sweep keeps them, and the trials
    that resume has added. What was not typed is the default, so the same version of this project is meant.
    """
    if out is not None and Path(out).exists():
        refuse([f"--out {out}: it is there already; name a new file"])
    restore_plugins(Path(folder))
    from search_spaces.durable import write_whole
    from sweeper.store.folder import read_settings

    text = config_text(Path(folder), read_settings(Path(folder)))
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(Path(out), text)
        click.echo(out)


def config_text(folder: Path, settings: SweepSettings) -> str:
    """The file for the sweep in a folder, as YAML."""
    from sweeper.cli.lr_study import lr_study
    from sweeper.cli.pareto import pareto
    from sweeper.settings.sweep_settings import LR_STUDY

    command = lr_study if settings.kind == LR_STUDY else pareto
    words = shlex.split(settings.command)
    at = words.index(str(command.name)) if command.name in words else len(words)
    context = click.Context(command, info_name=command.name, resilient_parsing=True)
    given, _, _ = command.make_parser(context).parse_args(args=[word for word in words[at + 1 :] if word])
    given = {name: value for name, value in given.items() if name not in _NOT_AGAIN} | _now(folder, settings, given)
    flags = {str(item.name): item.opts[0].removeprefix("--") for item in command.params if item.opts}
    head = f"# python -m sweeper {command.name} --config THIS_FILE\n"
    return head + "".join(_lines(flags[name], value) for name, value in given.items() if value not in (None, []))


def _now(folder: Path, settings: SweepSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in the sweep's settings rather than in what was typed."""
    from sweeper.settings.sweep_settings import PARETO
    from sweeper.store.plugins import FOLDER
    from trainables import plugins
    from trainables.spec import FIELDS

    files = {item.name: str((folder / FOLDER / item.name).resolve()) for item in plugins.active() if not item.installed}
    places = [name for name, item in FIELDS.items() if item.role == "placement" and given.get(name) is not None]
    found: dict[str, Any] = {name: getattr(settings.base, name) for name in places}
    found |= {name: _absolute(given[name]) for name in _PLACES if given.get(name) is not None}
    found |= {"address": settings.address, "storage": settings.storage}  # resume may have changed them
    if given.get("tracking_uri") is not None:
        found["tracking_uri"] = settings.tracking_uri
    if settings.address is not None and not settings.ship:
        found["no_ship"] = True
    if settings.kind == PARETO:
        found |= {"trials": str(settings.trials), "sampler": settings.sampler}
    found |= {name: str(value) for name in ("epoch_budget", "until") if (value := getattr(settings, name)) is not None}
    found["plugin"] = [path for name, path in files.items() if name.endswith(".py")]
    templates = {Path(name).stem: path for name, path in files.items() if not name.endswith(".py")}
    if settings.base.template in templates:
        found["template"] = templates[settings.base.template]
    return found


def _absolute(value: Any) -> Any:
    """Paths that are there, as they are called from anywhere."""
    if isinstance(value, str):
        return str(Path(value).resolve()) if Path(value).exists() else value
    return [_absolute(part) for part in value]


def _lines(key: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{key}:\n" + "".join(f"  - {_scalar(part)}\n" for part in value)
    return f"{key}: {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    import json

    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
