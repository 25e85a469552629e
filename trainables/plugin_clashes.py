"""Find plug-ins that define names that already exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables import plugins
from trainables.data import DATASETS
from trainables.metrics.registry import METRICS, SETS
from trainables.models.registry import MODELS
from trainables.objectives import ALIASES, OBJECTIVES
from trainables.templates import TEMPLATES
from trainables.weightings import WEIGHTINGS

_REGISTRIES: Mapping[str, Mapping[str, Any]] = {
    "weighting": WEIGHTINGS,
    "objective": OBJECTIVES,
    "metric": METRICS,
    "data set": DATASETS,
    "model": MODELS,
    "template": TEMPLATES,
}


def clashes() -> list[str]:
    """Return a message, with file and line, for each plug-in entry whose name is already taken.

    All registries are loaded.
    """
    taken = {"weighting": {*OBJECTIVES, *ALIASES}, "objective": {*WEIGHTINGS, *ALIASES}, "metric": {*SETS}}
    found = []
    for plugin in plugins.active():
        for part in plugin.parts:
            at = f"{plugin.place}, line {part.line}"
            if _REGISTRIES[part.kind][part.name] is not part.entry:
                found.append(f"{at}: a {part.kind} named '{part.name}' already exists; rename yours")
            elif part.name in taken.get(part.kind, ()):
                found.append(
                    f"{at}: the name '{part.name}' is already used by a method or a set of metrics; rename yours"
                )
    return found
