"""What a comparison reads: sweep folders, and CSV files with named columns from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.trade_off import Objective
from analysis.tables.csv_rows import read_rows
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import STATUSES, TrialTable
from analysis.tables.typed_columns import typed_frame

Part = tuple[TrialTable, Sequence[Objective], Mapping[str, float]]
_TEXT = {"trial_id", "method", "model", "dataset", "status", "auto_lr", "checkpoint", "error"}
_ROUGE = (
    Objective(name="verbmem", column="verbmem", direction="min", low=0.0, high=1.0, label="verbmem"),
    Objective(name="utility", column="utility", direction="max", low=0.0, high=1.0, label="utility"),
)


def comparison_parts(sources: Sequence[Path]) -> list[Part]:
    """Every source's table, objectives, and metrics of its No-unlearn model.

    A CSV has a column ``method`` and one for each metric; ``model``, ``dataset``, ``lr``, ``auto_lr`` (on, off),
    ``seed`` and ``status`` where it has them; a row without a seed is a run of its own. A row whose method is
    ``No-unlearn`` is the baseline. Without losses' bounds its configurations are ranked by verbmem and utility.

    Raises:
        AnalysisError: a source is neither, cannot be read, or has no objectives yet.
    """
    parts: list[Part] = []
    for index, source in enumerate(sources):
        name = f"{index + 1}: {source.name}"
        if source.is_file():
            parts.append(_from_csv(source, name))
            continue
        sweep = SweepFile.read(source)
        parts.append((TrialTable.read(source, sweep=name), sweep.objectives, sweep.baseline))
    named = {tuple(item.column for item in objectives) for _, objectives, _ in parts}
    if len(named) > 1:
        # The one scale that is the same for all: shares of words, whatever each sweep searched for.
        return [
            (table, _ROUGE if {"verbmem", "utility"} <= set(table.trials.columns) else (), baseline)
            for table, _, baseline in parts
        ]
    return parts


def _from_csv(path: Path, name: str) -> Part:
    rows = read_rows(path, required=("method",), growing=False)
    if not rows.columns:
        raise AnalysisError(f"{path} is empty: expected a header with a column 'method' and the metrics")
    numeric = ({"lr", "seed", *(item.column for item in _ROUGE)}) & set(rows.columns)
    frame = typed_frame(path, rows, text=_TEXT & set(rows.columns), numeric=numeric)
    is_baseline = frame["method"].str.lower().isin(("no-unlearn", "target"))
    baseline = {
        str(column): float(value)
        for column, value in (frame[is_baseline].iloc[0].items() if is_baseline.any() else ())
        if isinstance(value, (int, float)) and not pd.isna(value)
    }
    trials = frame[~is_baseline].reset_index(drop=True)
    defaults: dict[str, str | float] = {
        "model": "",
        "dataset": "",
        "lr": float("nan"),
        "auto_lr": "off",
        "seed": float("nan"),
        "spec_hash": "",
        "checkpoint": "",
        "error": "",
    }
    if "trial_id" not in trials.columns:
        trials["trial_id"] = [f"{index:05d}" for index in range(len(trials))]
    for column, value in defaults.items():
        if column not in trials.columns:
            trials[column] = value
    status = trials.pop("status") if "status" in trials.columns else pd.Series("finished", index=trials.index)
    unknown = sorted(set(status) - set(STATUSES))
    if unknown:
        raise AnalysisError(f"{path}: status is '{unknown[0]}', expected one of {', '.join(STATUSES)}")
    settings = [item for item in ("model", "dataset", "method", "lr", "auto_lr", "seed", "c") if item in trials.columns]
    outcome = [item for item in trials.columns if item not in (*settings, "trial_id", "spec_hash")]
    whole = pd.concat([trials[["trial_id", "spec_hash", *settings]], status.rename("status"), trials[outcome]], axis=1)
    whole.insert(0, "sweep", name)
    history = pd.DataFrame({"sweep": [], "trial_id": [], "step": []})
    objectives = _ROUGE if {"verbmem", "utility"} <= set(whole.columns) else ()
    return TrialTable(whole, history, tuple(settings)), objectives, baseline
