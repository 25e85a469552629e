"""pareto.json: the frontier for other tools."""

from __future__ import annotations

import math

import numpy as np

from analysis.frontier.frontier import Frontier
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable


def pareto_content(front: Frontier, table: TrialTable, sweep: SweepFile) -> dict[str, object]:
    """The content of pareto.json.

    ``objectives`` (name, direction, bounds, column), ``reference`` (the worst bound of each, in its own unit),
    ``hypervolume`` in [0, 1], ``front`` (trial_id, epoch, step, ``objectives`` by name, contribution, every spec
    field, checkpoint),
    ``baseline`` (the No-unlearn model: ``objectives`` by name and every metric; null before it is measured).
    """
    names = [objective.name for objective in front.objectives]
    return {
        "objectives": [
            {"name": item.name, "direction": item.direction, "bounds": [item.low, item.high], "column": item.column}
            for item in front.objectives
        ],
        "reference": {objective.name: objective.worst for objective in front.objectives},
        "hypervolume": front.hypervolume,
        "front": [
            {
                "trial_id": row["trial_id"],
                "epoch": whole(row.get("epoch", math.nan)),
                "step": whole(row.get("step", math.nan)),
                "objectives": dict(zip(names, front.values[i].tolist(), strict=True)),
                "hypervolume_contribution": float(front.contributions[i]),
                "spec_hash": row["spec_hash"],
                **{name: row[name] for name in table.spec_columns},
                "checkpoint": row["checkpoint"] or None,
            }
            for i, (_, row) in enumerate(front.members.iterrows())
        ],
        "baseline": {"objectives": sweep.baseline_objectives(), **sweep.baseline} if sweep.baseline else None,
    }


def whole(value: float) -> float | int | None:
    """An epoch or a step: 3 rather than 3.0, and None where it is not known."""
    return None if math.isnan(value) else int(value) if float(value).is_integer() else float(value)


def plain(value: object) -> object:
    """``value`` as JSON can hold it: numpy's values as Python's, what is not finite and empty text cells as null."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value == "" or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
