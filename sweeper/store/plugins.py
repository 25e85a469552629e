"""The plug-ins of a sweep: kept in its folder, where every node sees them, named in sweep.json, taken up by resume.

Nothing that looks at a registry is imported here: plug-ins come before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from search_spaces.durable import write_whole
from trainables import plugins
from trainables.plugins import Plugin, PluginError

FOLDER = "plugins"


def save_plugins(out: Path) -> None:
    """Write the active plug-ins into the folder of a new sweep; those of installed packages stay where they are."""
    for plugin in plugins.active():
        if not plugin.installed:
            (out / FOLDER).mkdir(exist_ok=True)
            write_whole(_kept(out, plugin), plugin.source)


def plugin_records() -> list[dict[str, object]]:
    """What sweep.json says of them."""
    return [
        {
            "name": plugin.name,
            "path": plugin.place,
            "file": None if plugin.installed else f"{FOLDER}/{plugin.name}",
            "digest": plugin.digest,
            "parts": [f"{part.kind} {part.name}" for part in plugin.parts],
        }
        for plugin in plugins.active()
    ]


def set_worker_plugins(out: Path) -> None:
    """Put into the environment, which Ray hands on, which plug-ins its workers are to read."""
    files = {plugin.name: _kept(out.resolve(), plugin) for plugin in plugins.active()}
    os.environ.pop(plugins.VARIABLE, None)
    os.environ.update(plugins.to_environment(files))


def restore_plugins(out: Path) -> list[str]:
    """Use the plug-ins that the sweep in ``out`` began with; returns what is to be told.

    Raises:
        PluginError: one of them is not what it was, so that new trials could not be compared with the old ones.
    """
    try:
        kept = json.loads((out / "sweep.json").read_text(encoding="utf-8")).get("plugins", [])
    except (OSError, ValueError, AttributeError):
        return []  # whoever reads the sweep says what is wrong
    problems, told = list[str](), list[str]()
    for item in kept:
        if item["file"] is None:
            told += _of_package(item["name"], item["digest"])
            continue
        path, original = out / item["file"], Path(item["path"])
        if path != out / FOLDER / Path(item["file"]).name:
            problems.append(f"{out / 'sweep.json'}: plug-in {item['file']} is not in the sweep's own {FOLDER}/")
        elif not path.is_file() or _digest(path) != item["digest"]:
            problems.append(
                f"{path}: this is not the plug-in that the sweep began with, so that new trials could not be compared "
                "with the old ones; put it back, or begin a new sweep"
            )
        elif original.is_file() and _digest(original) != item["digest"]:
            told.append(f"plug-in {original} has changed since the sweep began; it goes on with its own copy, {path}")
    if problems:
        raise PluginError(*problems)
    plugins.use(plugins.read(out / item["file"], place=item["path"]) for item in kept if item["file"] is not None)
    return told


def _of_package(name: str, digest: str) -> Iterator[str]:
    now = next((plugin for plugin in plugins.active() if plugin.installed and plugin.name == name), None)
    if now is None:
        yield f"the installed plug-in {name}, which the sweep began with, is not installed any more"
    elif now.digest != digest:
        yield f"the installed plug-in {name} has changed since the sweep began: trials with its parts are other ones"


def _digest(path: Path) -> str:
    return plugins.digest_of(path.read_text(encoding="utf-8", errors="replace"))


def _kept(out: Path, plugin: Plugin) -> Path:
    return out / FOLDER / plugin.name
