"""Find plug-ins that define names that already exist."""

from __future__ import annotations

from trainables import plugins
from trainables.data import DATASETS
from trainables.metrics.registry import METRICS, SETS
from trainables.models.registry import MODELS
from trainables.objectives import ALIASES, OBJECTIVES
from trainables.templates import TEMPLATES
from trainables.weightings import WEIGHTINGS


def clashes() -> list[str]:
    """Return a message, with file and line, for each plug-in entry whose name is already taken.

    All registries are loaded.
    """
    assert all((DATASETS, METRICS, MODELS, TEMPLATES)), "every registry has entries"
    taken = {"weighting": {*OBJECTIVES, *ALIASES}, "objective": {*WEIGHTINGS, *ALIASES}, "metric": {*SETS}}
    across = [
        f"{plugin.place}, line {part.line}: the name '{part.name}' is already used by a method or a set of metrics; "
        "rename yours"
        for plugin in plugins.active()
        for part in plugin.parts
        if part.name in taken.get(part.kind, ())
    ]
    return [*plugins.left_out(), *across]
