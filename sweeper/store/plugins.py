"""Copy the plug-ins of a sweep to its folder, and load the copies when the sweep is resumed.

This module imports no registry, because plug-ins must be loaded before the registries are imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search_spaces.common.durable import write_atomically
from trainables import plugins
from trainables.plugins import PluginError

FOLDER = "plugins"


def save_plugins(out: Path) -> None:
    """Copy the active plug-ins to the folder of a sweep."""
    for plugin in plugins.active():
        write_atomically(out / FOLDER / plugin.name, plugin.source)


def plugin_records() -> list[dict[str, Any]]:
    """Return descriptions of the active plug-ins for sweep.json."""
    return [
        {
            "name": plugin.name,
            "path": plugin.path,
            "file": f"{FOLDER}/{plugin.name}",
            "digest": plugin.digest,
            "parts": [f"{part.kind} {part.name}" for part in plugin.parts],
        }
        for plugin in plugins.active()
    ]


def plugin_options(paths: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values of the options that load plug-ins. ``paths`` maps the name of each plug-in to its file.

    Tasks of lm-eval are left out, because ``--metrics`` names them.
    """
    values: dict[str, list[str]] = {"plugin": [], "template": [], "questions": []}
    for name, path in paths.items():
        if plugins.is_question_set(name):
            values["questions"].append(f"{plugins.set_name(name)}={path}")
        elif not plugins.is_task(name):
            values["plugin" if name.endswith(".py") else "template"].append(path)
    return values


def stored_records(out: Path) -> list[dict[str, Any]]:
    """Return the descriptions of plug-ins in a sweep's folder; an empty list if sweep.json cannot be read."""
    try:
        records: list[dict[str, Any]] = json.loads((out / "sweep.json").read_text(encoding="utf-8")).get("plugins", [])
    except (OSError, ValueError, AttributeError):
        return []  # read_settings() reports this error
    return records


def set_worker_plugins(out: Path) -> None:
    """Set the environment variable from which workers read the paths of the plug-ins."""
    os.environ.pop(plugins.VARIABLE, None)
    os.environ.update(plugins.to_environment(out.resolve() / FOLDER))


def restore_plugins(out: Path) -> list[str]:
    """Load the plug-ins from a sweep's folder.

    Return a message for each plug-in that is not loaded, or whose original file has changed since the sweep started.

    Raises:
        PluginError: a plug-in in the sweep's folder is missing or has changed.
    """
    records = stored_records(out)
    problems: list[str] = []
    notes: list[str] = []
    for record in records:
        digest = record["digest"]
        path, original = out / record["file"], Path(record["path"])
        if path != out / FOLDER / Path(record["file"]).name:
            problems.append(f"{out / 'sweep.json'}: plug-in {record['file']} must be in {out / FOLDER}")
        elif not path.is_file() or _digest(path) != digest:
            problems.append(
                f"{path}: this is not the plug-in with which the sweep started, so new trials would not be comparable "
                "with existing ones; restore the file, or start a new sweep"
            )
        elif original.is_file() and _digest(original) != digest:
            notes.append(f"plug-in {original} has changed since the sweep started; the sweep uses its own copy, {path}")
    if problems:
        raise PluginError(*problems)
    plugins.use(plugins.read(out / record["file"], user_path=record["path"]) for record in records)
    return notes


def _digest(path: Path) -> str:
    return plugins.digest_of(path.read_text(encoding="utf-8-sig", errors="replace"))
