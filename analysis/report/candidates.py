"""The table of all candidates, which the page's scripts read, and how the scripts share a selection.

**The data.** ``<script type="application/json" id="sweeper-data">`` has one row per candidate, stored as columns:

- ``problems``: a list with the ``title`` of each unlearning task, its ``axes`` (the columns of the objectives), the
  scores of its ``target``, the loss of a random ``guess`` (or null), the row of the ``chosen`` model (null without
  one), whether it is ``recommended``, and the ``rule`` that chose it (:func:`analysis.frontier.rule.compiled_rule`,
  with the ``rows`` of its models; null with a ``reason``).
- ``trials``: the lists ``id``, ``method``, ``status``, ``settings`` (text), ``problem`` (index), ``folder`` (of the
  sweep, as in the command ``pick``; null for a trial that cannot be picked) and ``own_id`` (the trial's id in this
  folder).
- ``rows``: the lists ``trial`` (index), ``epoch`` (null if unknown), ``front`` and ``stored`` (0 or 1: on the frontier
  of the objectives, and with a checkpoint). Row i of every list below is the same candidate.
- ``columns``: a list with ``name``, ``label``, ``unit``, ``better`` (``higher``, ``lower`` or "") and ``score``
  (whether it is a loss or a metric), ``loss`` and ``attacked`` (the score whose value after an attack it is, or "") of
  each column that was measured.
- ``values``: a list per column name, with null where the column was not measured.
- ``shown`` and ``of``: the number of rows here, and of all candidates. Large tables are thinned (:data:`MAX_ROWS`).

**The selection.** ``templates/selection.js`` runs first and defines ``window.sweeper``. A candidate's key is
``TRIAL@EPOCH``, such as ``00007@3`` (``00007@`` if the epoch is unknown):

- ``sweeper.data`` (the data above), ``sweeper.key(row)``, ``sweeper.row(key)`` (undefined if the page has no such row).
- ``sweeper.selected`` and ``sweeper.pinned``: lists of keys. At most three candidates are pinned: a further one
  replaces the oldest. ``sweeper.select(keys, current)``, ``sweeper.pin(key)`` and ``sweeper.unpin(key)`` change them.
- ``sweeper.current``: the key of the last candidate that was clicked, or null.
- ``sweeper.problem``: the index of the task that is shown. ``sweeper.show(index)`` changes it (``sweeper:problem``).
- Each change dispatches a CustomEvent on ``document``: ``sweeper:select`` with the detail ``{trial, epoch, keys}``
  (trial and epoch of the current candidate, or null), or ``sweeper:pin`` with ``{trial, epoch, pinned}``. An empty
  selection means that all candidates are shown.
- ``sweeper.keep(name, value)`` keeps a value until the tab closes, and ``sweeper.kept(name)`` returns it, so that a
  reload changes nothing. The selection and the pins are kept in this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.frontier.choice import Choice
from analysis.frontier.frontier import Frontier
from analysis.frontier.pareto_json import json_number, json_value
from analysis.frontier.rule import MAX_MODELS, compiled_rule
from analysis.report.render import render_line
from analysis.tables.columns import Columns
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable, numbers
from analysis.words import format_settings

MAX_ROWS = 5000
"""The maximum number of candidates on the page, about. Models on a frontier are never left out."""
_SETTINGS = ("epoch", "lr", "c")
"""The settings that may be an axis."""
_DIGITS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """An unlearning task on the page: its tables, its frontier and its chosen model."""

    title: str
    source: Sources
    front: Frontier
    choice: Choice


def candidates_data(problems: Sequence[Problem], folders: Mapping[str, Path], *, prefixed: bool) -> dict[str, Any]:
    """Return the content of ``sweeper-data``, as described at the top of this module.

    Args:
        folders: the folder of each sweep, keyed by the sweep's name in the column ``sweep``.
        prefixed: whether trial ids start with the name of their sweep.
    """
    tables = [item.source.table for item in problems]
    kept = [_kept(item, MAX_ROWS // len(problems)) for item in problems]
    rows = pd.concat(kept, ignore_index=True)
    problem_of = np.repeat(np.arange(len(kept)), [len(part) for part in kept])
    firsts = rows.copy().assign(problem=problem_of).drop_duplicates(["problem", "trial_id"])
    index_of = {key: i for i, key in enumerate(zip(firsts["problem"], firsts["trial_id"], strict=True))}
    positions: list[dict[tuple[str, float], int]] = [{} for _ in problems]
    for i, (part, key) in enumerate(zip(problem_of, _keys(rows), strict=True)):
        positions[part][key] = i
    columns = _merged_columns(tables)
    names = _axis_columns(rows, columns, problems)
    names_of_lists = ("id", "method", "status", "settings", "problem", "folder", "own_id")
    trials: dict[str, list[object]] = {name: [] for name in names_of_lists}
    for _, row in firsts.iterrows():
        sweep, trial_id = str(row["sweep"]), str(row["trial_id"])
        folder = None if row["external"] else folders.get(sweep)
        trials["id"].append(trial_id)
        trials["method"].append(json_value(row["method"]))
        trials["status"].append(json_value(row["status"]))
        trials["settings"].append(format_settings(row, tables[row["problem"]].varying))
        trials["problem"].append(int(row["problem"]))
        trials["folder"].append(None if folder is None else str(folder))
        trials["own_id"].append(trial_id.removeprefix(f"{sweep}/") if prefixed else trial_id)
    return {
        "problems": [
            {
                "title": item.title,
                "axes": [objective.column for objective in item.source.sweep.objectives],
                "target": json_value(dict(item.source.sweep.baseline)),
                "guess": item.source.sweep.random_guess_loss,
                "chosen": None if item.choice.row is None else position[_keys(item.choice.row.to_frame().T)[0]],
                "recommended": item.choice.recommended,
                **_rule(item, position),
            }
            for item, position in zip(problems, positions, strict=True)
        ],
        "trials": trials,
        "rows": {
            "trial": [index_of[key] for key in zip(problem_of, rows["trial_id"], strict=True)],
            "epoch": [json_number(epoch) for epoch in numbers(rows, "epoch").tolist()],
            "front": rows["on_front"].astype(int).tolist(),
            "stored": (rows["checkpoint"].fillna("") != "").astype(int).tolist(),
        },
        "columns": [_column(name, columns) for name in names],
        "values": {name: _rounded(numbers(rows, name)) for name in names},
        "shown": len(rows),
        "of": sum(len(table.models.trials) for table in tables),
    }


def _kept(problem: Problem, max_rows: int) -> pd.DataFrame:
    """Return the candidates of a problem with the column ``on_front``.

    Of more than about ``max_rows``, those on the frontier and those that the rule judges are kept.
    """
    rows = problem.source.table.models.trials
    keys, on_front = _keys(rows), {*_keys(problem.front.members)}
    rows = rows.assign(on_front=[key in on_front for key in keys])
    if len(rows) <= max_rows:
        return rows
    chosen = [] if problem.choice.row is None else _keys(problem.choice.row.to_frame().T)
    judged = _keys(problem.choice.rows) if len(problem.choice.rows) <= MAX_MODELS else []
    marked = on_front | {*chosen, *judged}
    is_marked = np.array([key in marked for key in keys], dtype=bool)
    others = np.flatnonzero(~is_marked)
    count = min(len(others), max(0, max_rows - int(is_marked.sum())))
    picked = others[np.linspace(0, len(others) - 1, count).round().astype(int)]
    return rows.iloc[np.sort(np.concatenate([np.flatnonzero(is_marked), picked]))]


def _rule(problem: Problem, position: Mapping[tuple[str, float], int]) -> dict[str, object]:
    """Return the entries ``rule`` and ``reason`` of a problem. ``position`` has the row of each candidate."""
    choice = problem.choice
    rule = compiled_rule(choice, problem.source.table)
    if rule is None:
        return {"rule": None, "reason": render_line("page.no_rule", models=len(choice.rows), limit=MAX_MODELS)}
    return {"rule": rule | {"rows": [position[key] for key in _keys(choice.rows)]}, "reason": ""}


def _keys(rows: pd.DataFrame) -> list[tuple[str, float]]:
    """Return the trial and the step of each row. An unknown step is -1, because NaN does not equal NaN."""
    return list(zip(rows["trial_id"].astype(str), _steps(rows), strict=True))


def _steps(rows: pd.DataFrame) -> list[float]:
    steps = pd.to_numeric(rows["step"], errors="coerce") if "step" in rows else pd.Series(np.nan, rows.index)
    return steps.fillna(-1.0).astype(float).tolist()


def _merged_columns(tables: Sequence[TrialTable]) -> Columns:
    columns = tables[0].columns
    for table in tables[1:]:
        columns = columns | table.columns
    return columns


def _axis_columns(rows: pd.DataFrame, columns: Columns, problems: Sequence[Problem]) -> list[str]:
    """Return the columns that may be an axis: the objectives, the other losses and metrics, costs, and settings."""
    objectives = [item.column for problem in problems for item in problem.source.sweep.objectives]
    costs = [name for name in columns.entries if columns[name].role == "cost"]
    settings = [name for name in _SETTINGS if numbers(rows, name).nunique() > 1]
    names = dict.fromkeys([*objectives, *columns.losses, *columns.outcomes, *costs, *settings])
    return [name for name in names if np.isfinite(numbers(rows, name)).any()]


def _column(name: str, columns: Columns) -> dict[str, object]:
    facts = {"label": columns.label(name), "unit": columns[name].unit, "better": columns.better(name)}
    return {
        "name": name,
        **facts,
        "score": columns[name].role in ("loss", "metric"),
        "loss": columns.is_loss(name),
        "attacked": columns[name].attacked,
    }


def _rounded(values: pd.Series) -> list[float | int | None]:
    """Return the values with six significant digits, which is more than a chart shows."""
    return [
        json_number(float(f"{value:.{_DIGITS}g}")) if np.isfinite(value) else None
        for value in values.to_numpy(dtype=np.float64)
    ]
