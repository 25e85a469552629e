"""Read the results of other programs from a file: trials, and the scores of the model before unlearning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.tables.columns import Column, Columns
from analysis.tables.csv_rows import read_rows
from analysis.tables.note import note
from analysis.tables.published import SUFFIXES, published_rows
from analysis.tables.trial_table import TrialTable, check_status, is_search, numbers, typed_trials
from search_spaces.common.objective import Objective

_BASELINES = ("no-unlearn", "target")
"""The values of the column ``method`` that mark the row of the model before unlearning."""
_DEFAULTS = {"name": "", "status": "finished"}
"""The values of missing optional columns."""
_ROUNDING = 1e-6
"""By how much a value may exceed its bounds because of rounding."""


def read_external(
    path: Path, columns: Columns, *, sweep: str, objectives: Sequence[Objective] = ()
) -> tuple[TrialTable, dict[str, float]]:
    """Read a CSV file of another program: the trials, and the metrics of the model before unlearning.

    A file of another project in one of the formats of :mod:`analysis.tables.published` is read like a CSV file.

    The column ``method`` is required. A row whose method is No-unlearn or target is the model before unlearning. The
    columns ``name`` (default: the line number) and ``status`` (default: finished) are optional. Numeric columns that
    are not in the dictionary ``columns`` become metrics.

    Args:
        objectives: if given, the table must have all objectives, all losses or all primary metrics.

    Raises:
        AnalysisError: the file is missing or empty, a column or a method is missing, a name is repeated, a number or
            status is invalid, or a metric between 0 and 1 has another value, such as a percentage.
    """
    if not path.is_file():
        raise AnalysisError(f"{path} is not a file: expected the folder of a sweep, or a CSV file with a header")
    if path.suffix in SUFFIXES:
        rows = published_rows(path)
    else:
        rows, _ = read_rows(path, required=("method",), growing=False)
    if path.stat().st_size == 0:
        raise AnalysisError(f"{path} is empty: expected a header with the column 'method' and a column for each metric")
    rows = rows[is_search(rows)]  # in the table of another sweep, the other trials repeat a trial of the search
    cells = rows.assign(**{name: value for name, value in _DEFAULTS.items() if name not in rows})
    names = _names(path, cells)
    trials = typed_trials(path, cells, columns, sweep, external=True)
    _check_shares(path, trials, rows.index, columns)
    trials = trials.drop(columns="name").assign(trial_id=pd.Series(names, dtype=object))
    for objective in objectives:
        if objective.column not in trials.columns and objective.name in trials.columns:
            # A sweep caps the loss of each token. The capped mean loss is an upper bound of the objective.
            measured = numbers(trials, objective.name).where(np.isfinite)
            trials[objective.column] = objective.clip(measured)
    numeric = trials.columns[pd.Series(trials.dtypes).map(pd.api.types.is_numeric_dtype)]
    added = [name for name in numeric if name in rows.columns and not (name in columns or columns.is_setting(name))]
    all_columns = columns | Columns({name: Column(role="metric") for name in added})
    is_target = trials["method"].str.lower().isin(_BASELINES)
    scores = [name for name in numeric if is_target.any() and all_columns[name].role in ("loss", "metric")]
    target_scores = {str(name): float(trials.loc[is_target, name].iloc[0]) for name in scores}
    baseline = {name: value for name, value in target_scores.items() if math.isfinite(value)}
    lines = tuple(rows.index[is_target.to_numpy()])
    notes = (note("target_row", lines=lines),) if lines else ()
    history = pd.DataFrame({"sweep": pd.Series(dtype=object), "trial_id": pd.Series(dtype=object), "step": []})
    if objectives:
        _check_objectives(path, rows.columns, set(trials.columns), all_columns, objectives)
    return TrialTable(trials[~is_target].reset_index(drop=True), history, all_columns, notes), baseline


def _check_objectives(
    path: Path, header: Iterable[str], present: set[str], columns: Columns, objectives: Sequence[Objective]
) -> None:
    pairs = [pair for pair in (columns.losses, columns.primaries(columns.entries)) if pair]
    if all({item.column, item.name} & present for item in objectives) or any(set(pair) <= present for pair in pairs):
        return
    alternatives = [tuple(item.name for item in objectives), *pairs]
    expected = " or ".join(dict.fromkeys(" and ".join(pair) for pair in alternatives))
    raise AnalysisError(f"{path}, line 1: found the columns {', '.join(header)}; expected method and {expected}")


def _check_shares(path: Path, trials: pd.DataFrame, lines: pd.Index, columns: Columns) -> None:
    """Raise an AnalysisError if a metric between 0 and 1 has another value, which a frontier would clip."""
    for name in trials.columns.intersection(list(columns.metrics)):
        if columns[name].bounds != (0.0, 1.0):
            continue
        values = numbers(trials, name).to_numpy()
        outside = np.flatnonzero((values < -_ROUNDING) | (values > 1.0 + _ROUNDING))
        if len(outside):
            raise AnalysisError(
                f"{path}, line {lines[outside[0]]}: {name} is {values[outside[0]]:g}, expected a number from 0 to 1; "
                "divide percentages by 100"
            )


def _names(path: Path, cells: pd.DataFrame) -> list[str]:
    names: dict[str, None] = {}  # in order; a list would make a table of 100,000 rows take minutes
    for line, name, method, status in cells[["name", "method", "status"]].itertuples():
        name = name or f"line {line}"
        if not method:
            raise AnalysisError(f"{path}, line {line}: the column 'method' is empty")
        if name in names:
            raise AnalysisError(f"{path}, line {line}: name '{name}' is already used by another row")
        check_status(path, line, status)
        names[name] = None
    return list(names)
