"""A candidate is the model a trial has after an epoch. What a worker and the sweep's driver both know of candidates.

The driver publishes the values of the sweep's front in a small file; a worker saves an epoch's model unless one of
them, or an earlier epoch of its own trial, dominates it. Only the driver deletes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from search_spaces.durable import write_whole

FRONT_FILE = "ray/front.json"
"""In a sweep's folder: the costs of the epochs on its front."""

Goals = tuple[tuple[str, str], ...]
"""The objectives as (column, "min" or "max")."""
Costs = tuple[float, ...]
"""A candidate's objectives with the sign that makes smaller better, as measured: neither scaled nor clipped."""


def candidate_folder(trial_id: str, epoch: float) -> str:
    """Where an epoch's model is kept, relative to the sweep's folder: ``checkpoints/00007-epoch-3``."""
    return f"checkpoints/{trial_id}-epoch-{epoch:g}"


def costs_of(values: Mapping[str, object], goals: Goals) -> Costs | None:
    """The costs of a report or of a table's row; None where an objective is missing or not finite."""
    found = []
    for column, direction in goals:
        try:
            value = float(values.get(column))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
        if not math.isfinite(value):
            return None
        found.append(value if direction == "min" else -value)
    return tuple(found)


def dominates(one: Costs, other: Costs) -> bool:
    """Whether ``one`` is nowhere worse and somewhere better: of equals neither dominates."""
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def write_front(out: Path, front: Iterable[Costs]) -> None:
    """Publish the front to the workers; raises OSError where the disk refuses."""
    write_whole(out / FRONT_FILE, json.dumps(sorted(set(front))))


def read_front(out: Path) -> list[Costs]:
    """What :func:`write_front` last wrote; nothing where there is no such file, or none that can be read."""
    try:
        return [tuple(map(float, costs)) for costs in json.loads((out / FRONT_FILE).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
