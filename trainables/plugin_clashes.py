"""What plug-ins call by a name that exists already."""

from __future__ import annotations

from trainables import plugins
from trainables.data import DATASETS
from trainables.metrics.registry import METRICS, SETS
from trainables.models.registry import MODELS
from trainables.objectives import ALIASES, OBJECTIVES
from trainables.templates import TEMPLATES
from trainables.weightings import WEIGHTINGS


def clashes() -> list[str]:
    """A plain sentence, with file and line, for each name that another part has; looks at all registries."""
    assert all((DATASETS, METRICS, MODELS, TEMPLATES)), "each has entries"
    taken = {"weighting": {*OBJECTIVES, *ALIASES}, "objective": {*WEIGHTINGS, *ALIASES}, "metric": {*SETS}}
    across = [
        f"{plugin.place}, line {part.line}: there is a method or a set of metrics called '{part.name}' already; "
        "rename yours"
        for plugin in plugins.active()
        for part in plugin.parts
        if part.name in taken.get(part.kind, ())
    ]
    return [*plugins.left_out(), *across]
