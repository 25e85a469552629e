"""Decide whether a worker saves the model of an epoch.

The driver writes the costs (objective values to minimise) of the sweep's Pareto front to a small file. A worker saves
the model of an epoch unless the costs on the front, or those of an earlier epoch of the trial, dominate the epoch's
costs. Only the driver deletes models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from search_spaces.common.durable import write_atomically
from search_spaces.common.values import as_float

FRONT_FILE = "ray/front.json"
"""The file with the costs of the epochs on the front, relative to the sweep's folder."""

Goals = tuple[tuple[str, str], ...]
"""The objectives, each as (column, "min" or "max")."""
Costs = tuple[float, ...]
"""The objective values of an epoch. Lower is better, so values to be maximised are negated."""


def candidate_folder(trial_id: str, epoch: float) -> str:
    """Return the folder for an epoch's model, relative to the sweep's folder, such as ``checkpoints/00007-epoch-3``."""
    return f"checkpoints/{trial_id}-epoch-{epoch:g}"


def epoch_costs(values: Mapping[str, object], goals: Goals) -> Costs | None:
    """Return an epoch's costs from its reported values; None if an objective is missing or not finite."""
    costs = []
    for column, direction in goals:
        value = as_float(values.get(column))
        costs.append(value if direction == "min" else -value)
    return tuple(costs) if all(math.isfinite(cost) for cost in costs) else None


def dominates(costs: Costs, other_costs: Costs) -> bool:
    """Return whether ``costs`` is better than ``other_costs`` in at least one objective and worse in none."""
    is_no_worse = all(cost <= other_cost for cost, other_cost in zip(costs, other_costs, strict=True))
    return is_no_worse and costs != other_costs


def write_front(out: Path, front: Iterable[Costs]) -> None:
    """Write the costs of the epochs on the front to ``FRONT_FILE``.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(out / FRONT_FILE, json.dumps(sorted(set(front))))


def read_front(out: Path) -> list[Costs]:
    """Return the costs in ``FRONT_FILE``; empty if the file is missing or unreadable."""
    try:
        return [tuple(map(float, costs)) for costs in json.loads((out / FRONT_FILE).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
