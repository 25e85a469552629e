"""Compute the content of pareto.json, which describes the frontier for other programs."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis.frontier.frontier import Frontier
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import cell


def pareto_content(front: Frontier, table: TrialTable, sweep: SweepFile) -> dict[str, object]:
    """Return the content of pareto.json. The entry ``baseline`` has the scores of the target before unlearning."""
    names = [objective.name for objective in front.objectives]
    before = {objective.name: sweep.baseline.get(objective.column) for objective in sweep.objectives}
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
                "epoch": json_number(row.get("epoch", math.nan)),
                "step": json_number(row.get("step", math.nan)),
                "objectives": dict(zip(names, front.values[i].tolist(), strict=True)),
                "hypervolume_contribution": float(front.contributions[i]),
                "spec_hash": row["spec_hash"],
                **{name: row[name] for name in table.spec_columns},
                **_merge(row),
                "checkpoint": row["checkpoint"] or None,
            }
            for i, (_, row) in enumerate(front.members.iterrows())
        ],
        "baseline": {"objectives": before, **sweep.baseline} if sweep.baseline else None,
    }


def _merge(row: pd.Series) -> dict[str, object]:
    """Return the entries of a merged model: the trials and folders whose models are merged, and the factor."""
    merged = cell(row.get("merges"))
    return {} if merged is None else {"merges": str(merged).split(","), "merge_scale": float(row["merge_scale"])}


def json_number(value: float) -> float | int | None:
    """Convert a whole number to an integer (3.0 to 3) and NaN to None. Return any other number unchanged."""
    if math.isnan(value):
        return None
    return int(value) if float(value).is_integer() else float(value)


def json_value(value: object) -> object:
    """Convert a value for JSON. Numpy values become Python values, and infinities, NaN and "" become None."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value == "" or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return value
