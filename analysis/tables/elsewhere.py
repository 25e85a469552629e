"""Results of other programs, from a plain CSV with named columns, as trials beside those of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.trade_off import Objective
from analysis.tables.csv_rows import CsvRows, read_rows
from analysis.tables.trial_table import REQUIRED, TrialTable
from analysis.tables.typed_columns import typed_frame

PAIRS = (("forget_loss", "retain_loss"), ("verbmem", "utility"))
"""The pairs of columns of which one must be there, if the sweep's own objectives are not."""
_TEXT = frozenset({"method", "name", "model", "dataset", "auto_lr", "checkpoint"})
_NUMBERS = frozenset({"lr", "c", "seed", "forget_loss", "retain_loss", "verbmem", "utility", "truth_ratio"})


def read_elsewhere(path: Path, objectives: Sequence[Objective]) -> TrialTable:
    """The rows of ``path`` as finished trials, marked by a column ``elsewhere``.

    Needed: ``method`` and the columns of the objectives, by their column or their name, or one of :data:`PAIRS`.
    A row whose method is No-unlearn is the model before unlearning, not a method: it is left out, with a note.
    Understood: ``name`` (else the line number names the row), ``lr``, ``c``, ``seed``, ``model``, ``dataset``. A capped
    objective is capped here. Other columns stay as they are.

    Raises:
        AnalysisError: the file is missing or empty, lacks a column, has an empty method, two rows of one name, or a
            cell that is no number where one belongs; says where.
    """
    if not path.is_file():
        raise AnalysisError(f"{path} is no file: expected a sweep's folder or a CSV with named columns")
    rows = read_rows(path, required=("method",), growing=False)
    if not rows.columns:
        raise AnalysisError(f"{path} is empty: expected a header with method and the objectives")
    _check(path, rows, objectives)
    wanted = {name for item in objectives for name in (item.column, item.name)}
    frame = typed_frame(path, rows, text=_TEXT, numeric=_NUMBERS | wanted)
    names = _names(path, rows)
    for objective in objectives:
        if objective.column not in frame.columns and objective.name in frame.columns:
            # The raw value, moved to the cap: what lies beyond it is not better.
            frame[objective.column] = frame[objective.name].clip(objective.low, objective.high)
    given = [name for name in frame.columns if name in ("model", "dataset", "method", "lr", "c", "seed", "auto_lr")]
    trials = frame.drop(columns=[name for name in ("trial_id", "status", "name") if name in frame.columns])
    trials.insert(0, "trial_id", pd.Series(names, dtype=object))
    trials = trials.assign(status="finished", elsewhere=True)
    for column in REQUIRED:
        if column not in trials.columns:
            # An unknown number is NaN, an unknown text empty.
            trials[column] = float("nan") if column in ("lr", "seed") else ""
    trials.insert(0, "sweep", path.stem)
    baseline = trials["method"].map(lambda method: method.lower() == "no-unlearn")
    lines = ", ".join(str(row.line) for row, is_one in zip(rows.rows, baseline, strict=True) if is_one)
    notes = (f"No-unlearn (line {lines}) is the model before unlearning, not a method, and was left out",)
    trials = trials[~baseline].reset_index(drop=True)
    history = pd.DataFrame({"sweep": pd.Series(dtype=object), "trial_id": pd.Series(dtype=object), "step": []})
    return TrialTable(trials, history, tuple(given), notes if lines else ())


def _check(path: Path, rows: CsvRows, objectives: Sequence[Objective]) -> None:
    for row, method in zip(rows.rows, rows.column("method"), strict=True):
        if not method:
            raise AnalysisError(f"{path}, line {row.line}: method is empty")
    own = all({item.column, item.name} & set(rows.columns) for item in objectives) and bool(objectives)
    if own or any(set(pair) <= set(rows.columns) for pair in PAIRS):
        return
    pairs = [tuple(item.name for item in objectives), *PAIRS] if objectives else list(PAIRS)
    expected = " or ".join(dict.fromkeys(" and ".join(pair) for pair in pairs))
    raise AnalysisError(f"{path}, line 1: columns {', '.join(rows.columns)}; expected method with {expected}")


def _names(path: Path, rows: CsvRows) -> list[str]:
    given = rows.column("name") if "name" in rows.columns else [""] * len(rows.rows)
    names: list[str] = []
    for row, name in zip(rows.rows, given, strict=True):
        chosen = name or f"line {row.line}"
        if chosen in names:
            raise AnalysisError(f"{path}, line {row.line}: name '{chosen}' stands twice")
        names.append(chosen)
    return names
