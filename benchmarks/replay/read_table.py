"""Read tabulated runs from a CSV with one row per run and epoch; it may be compressed.

Such a CSV (for example ``docs/data/tabulated_authors.csv.xz``) has the columns ``epoch``, ``method``, the settings that
vary, named as in trials.csv, and one column per metric. ``seed`` distinguishes repetitions, ``status`` is how a run
ended, ``random_guess`` the loss of a random guess, and ``trial_id`` the name of the run.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import math
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.tables.trade_off import Objective
from replay.table import Run, Table, TableError
from search_spaces.fields import LOG, LOG_TO_ONE
from search_spaces.messages import found_instead
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space
from search_spaces.values import Value
from sweeper.search.archive import number
from sweeper.settings.objectives import Objective as Asked
from sweeper.settings.objectives import axes
from sweeper.store.columns import METRIC_COLUMNS, PARAMETERS
from trainables.methods import OPTIONS
from trainables.metrics.registry import METRICS
from trainables.run.reports import Status

_FEW = 2
"""Fewer runs than this leave nothing to search."""
Cells = Mapping[str, str]
_NOT_SEARCHED = ("method", "seed", "epochs", "target_key")


def read_tables(path: Path, objectives: Sequence[Asked]) -> list[Table]:
    """Read the table of each seed in a file.

    Raises:
        TableError: what is wrong, in a sentence.
    """
    runs, guess, space = _read_file(path)
    measured = {name for _, run in runs for row in run.epochs for name, cell in row.items() if cell != ""}
    if absent := [item.column for item in objectives if item.column not in measured]:
        there = ", ".join(name for name in METRIC_COLUMNS if name in measured) or "none"
        raise TableError(f"{path} has no values of {' and '.join(absent)}: the metrics measured there are {there}")
    bounded = _bounded(path, objectives, guess)
    by_seed: defaultdict[int, list[Run]] = defaultdict(list)
    for seed, run in runs:
        by_seed[seed].append(run)
    for seed, group in by_seed.items():
        _check(path, seed, group)
    return [Table(space, bounded, tuple(group), seed) for seed, group in sorted(by_seed.items())]


def _check(path: Path, seed: int, runs: Sequence[Run]) -> None:
    if len(runs) < _FEW:
        raise TableError(f"{path} has {len(runs)} run of seed {seed}: a search needs at least {_FEW} to choose from")
    known: dict[tuple[tuple[str, Value], ...], str] = {}
    for run in runs:
        other = known.setdefault(tuple(sorted(run.config.items())), run.trial_id)
        if other != run.trial_id:
            raise TableError(f"{path}: the runs {other} and {run.trial_id} have the same settings and seed")


def _bounded(path: Path, objectives: Sequence[Asked], guess: float | None) -> tuple[Objective, ...]:
    if guess is None and any(METRICS[item.column].high is None for item in objectives):
        raise TableError(
            f"{path} has no column random_guess, the loss of a random guess (the logarithm of the vocabulary's size), "
            "which bounds the losses"
        )
    return axes(objectives, guess or 0.0)


def _read_file(path: Path) -> tuple[list[tuple[int, Run]], float | None, Space]:
    rows = _read_csv(path)
    columns = rows[0].keys()
    if missing := [name for name in ("epoch", "method") if name not in columns]:
        raise TableError(
            f"{path} has no column {' and no column '.join(missing)}: {found_instead(missing, columns)}; expected is a "
            "row per run and epoch"
        )
    if bad := next((line for line, row in enumerate(rows, 2) if not number(row["epoch"]) > 0), None):
        raise TableError(f"{path}, line {bad}: epoch is '{rows[bad - 2]['epoch']}', expected a number above 0")
    space = space_of(rows)
    names = [item.name for item in space.parameters]
    groups: defaultdict[tuple[str, ...], list[Cells]] = defaultdict(list)
    for row in rows:
        # A problem's name keeps apart what would else be one run.
        key = (row.get("trial_id", ""), row.get("seed", ""), *(row[name] for name in names))
        groups[key].append(row)
    runs = []
    for place, group in enumerate(groups.values()):
        group.sort(key=lambda row: number(row["epoch"]))
        last = group[-1]
        config = config_of(space, last)
        if config is None:
            raise TableError(f"{path}: run {last.get('trial_id') or place} has settings that do not go together")
        name, status = last.get("trial_id") or f"{place:05d}", last.get("status") or str(Status.FINISHED)
        runs.append((int(number(last.get("seed") or 0)), Run(name, config, status, tuple(group))))
    guesses = {number(row["random_guess"]) for row in rows if row.get("random_guess")}
    if len(guesses) > 1:
        raise TableError(f"{path} is of several problems (its random guesses differ): give one table for each")
    return runs, next(iter(guesses), None), space


def space_of(rows: Sequence[Cells]) -> Space:
    """Return what varies in the rows: learning rates and methods' options on their scale, the rest as choices."""
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


def config_of(space: Space, row: Cells) -> dict[str, Value] | None:
    """Return the configuration in a row, or None if it is not in the space."""
    config = dict(space.constants)
    for parameter in space.parameters:
        if cell := row.get(parameter.name, ""):
            value = _value(parameter, cell)
            if value is not None and parameter.accepts(value):
                config[parameter.name] = value
    try:
        space.params_of(config)
    except ValueError:
        return None
    return config


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


def _read_csv(path: Path) -> list[Cells]:
    if not path.is_file():
        raise TableError(f"there is no table {path}: expected a CSV, also compressed (.gz, .xz, .bz2)")
    try:
        unpacked = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}.get(path.suffix, bytes)
        content = unpacked(path.read_bytes()).decode()
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise TableError(f"cannot read {path}: {error}") from None
    rows: list[Cells] = list(csv.DictReader(io.StringIO(content, newline="")))
    if not rows:
        raise TableError(f"{path} has no rows")
    if uneven := next((line for line, row in enumerate(rows, 2) if None in row or None in row.values()), None):
        raise TableError(f"{path}, line {uneven}: it has not as many cells as the header")
    return rows
