"""Read tabulated runs from a CSV with one row per run and epoch; it may be compressed.

Such a CSV (for example ``docs/data/tabulated_authors.csv.xz``) has the columns ``epoch``, ``method``, the settings that
vary, named as in trials.csv, and one column per metric. ``seed`` distinguishes repetitions, ``status`` is how a run
ended, ``random_guess`` the loss of a random guess, and ``trial_id`` the name of the run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pandas as pd

from replay.table import Run, Table
from search_spaces.fields import LOG, LOG_TO_ONE
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space
from search_spaces.values import Value
from sweeper.search.archive import number
from sweeper.settings.objectives import Objective, axes
from sweeper.store.columns import PARAMETERS
from trainables.methods import OPTIONS

Cells = Mapping[str, str]
_NOT_SEARCHED = ("method", "seed", "epochs", "target_key")


def read_tables(path: Path, objectives: Sequence[Objective]) -> list[Table]:
    """Return the table of each seed in a file."""
    rows = cast(list[Cells], pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records"))
    space = space_of(rows)
    groups: defaultdict[str, list[Cells]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: number(row["epoch"])):
        groups[row["trial_id"]].append(row)
    runs: defaultdict[int, list[Run]] = defaultdict(list)
    for trial_id in dict.fromkeys(row["trial_id"] for row in rows):
        group = groups[trial_id]
        last = group[-1]
        runs[int(last["seed"])].append(Run(trial_id, config_of(space, last), last["status"], tuple(group)))
    bounded = axes(objectives, number(rows[0]["random_guess"]))
    return [Table(space, bounded, tuple(group), seed) for seed, group in sorted(runs.items())]


def space_of(rows: Sequence[Cells]) -> Space:
    """Return the search space of the rows: learning rates and method options on their scale, the rest as choices."""
    methods = tuple(dict.fromkeys(row["method"] for row in rows))
    parameters: list[Parameter] = [Choice("method", methods)]
    for name in PARAMETERS:
        if name in _NOT_SEARCHED or name not in rows[0]:
            continue
        values = dict.fromkeys(row[name] for row in rows if row[name] != "")
        if len(values) < 2:
            continue
        having = {row["method"] for row in rows if row[name] != ""}
        when = {} if len(having) == len(methods) else {"method": tuple(name for name in methods if name in having)}
        numbers = sorted({number(value) for value in values})
        ranges = [item.range for item in OPTIONS.values() if item.name == name and item.range is not None]
        scale = LOG if name == "lr" else ranges[0].scale if ranges else None
        if scale is None:
            parameters.append(Choice(name, tuple(parse_cell(value) for value in values), when=when))
            continue
        log, to_one, ends = scale == LOG, scale == LOG_TO_ONE, (numbers[0], numbers[-1])
        parameters.append(Number(name, *ends, log=log, log_to_one=to_one, when=when, grid=tuple(numbers)))
    return Space.of(parameters)


def config_of(space: Space, row: Cells) -> dict[str, Value]:
    """Return the configuration in a row. Raise ValueError if the configuration is not in the space."""
    cells = {item: row[item.name] for item in space.parameters if row[item.name]}
    return space.configuration({item.name: _value(item, cell) for item, cell in cells.items()})


def _value(parameter: Parameter, cell: str) -> Value:
    if isinstance(parameter, Choice):
        return next((value for value in parameter.values if parse_cell(cell) == parse_cell(str(value))), None)
    return int(number(cell)) if parameter.whole else number(cell)


def parse_cell(cell: str) -> Value:
    """Return a cell as a number if it is one, so that 1e-3 equals 0.001."""
    value = number(cell)
    if math.isnan(value):
        return cell
    return int(value) if cell.lstrip("-").isdecimal() else value
