"""Where a table comes from: the folder of an earlier sweep, or a CSV with a row per run and epoch, also compressed.

Such a CSV (``docs/data/tabulated_authors.csv.xz`` is one) has the columns ``epoch``, ``method`` and what else varies, by
the names trials.csv has for it, and a column per metric; ``seed`` tells repetitions apart, ``status`` says how a run
ended, ``random_guess`` is the loss of a random guess, and ``trial_id`` the run's name.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.tables.trade_off import Objective
from search_spaces.fields import LOG, LOG_TO_ONE
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space
from search_spaces.values import Value
from sweeper.attained import number
from sweeper.columns import METRIC_COLUMNS, PARAMETERS
from sweeper.folder import UsageError
from sweeper.simulation.table import Run, Table
from sweeper.trade_off import Objective as Asked
from trainables.methods import OPTIONS
from trainables.run.reports import Status

Cells = Mapping[str, str]
_FEW = 2
"""Fewer runs than this leave nothing to search."""


class TableError(UsageError):
    """The table cannot be replayed; the message is a plain sentence for the user."""


def read_tables(path: Path, objectives: Sequence[Asked]) -> list[Table]:
    """The table of each seed in a file or a sweep's folder.

    Raises:
        TableError: what is wrong, in a sentence.
    """
    from sweeper.simulation.sweep_table import read_sweep

    runs, guess, space = read_sweep(path) if path.is_dir() else _read_file(path)
    measured = {name for _, run in runs for row in run.epochs for name, cell in row.items() if cell != ""}
    if absent := [item.column for item in objectives if item.column not in measured]:
        there = ", ".join(name for name in METRIC_COLUMNS if name in measured) or "none"
        raise TableError(f"{path} has no values of {' and '.join(absent)}: the metrics measured there are {there}")
    axes = _axes(path, objectives, guess)
    by_seed: defaultdict[int, list[Run]] = defaultdict(list)
    for seed, run in runs:
        by_seed[seed].append(run)
    for seed, group in by_seed.items():
        _check(path, seed, group)
    return [Table(space, axes, tuple(group), seed) for seed, group in sorted(by_seed.items())]


def _check(path: Path, seed: int, runs: Sequence[Run]) -> None:
    if len(runs) < _FEW:
        raise TableError(f"{path} has {len(runs)} run of seed {seed}: a search needs at least {_FEW} to choose from")
    known: dict[tuple[tuple[str, Value], ...], str] = {}
    for run in runs:
        other = known.setdefault(tuple(sorted(run.config.items())), run.trial_id)
        if other != run.trial_id:
            raise TableError(f"{path}: the runs {other} and {run.trial_id} have the same settings and seed")


def _axes(path: Path, objectives: Sequence[Asked], guess: float | None) -> tuple[Objective, ...]:
    from trainables.metrics.registry import METRICS

    if guess is None and any(METRICS[item.column].high is None for item in objectives):
        raise TableError(
            f"{path} has no column random_guess, the loss of a random guess (the logarithm of the vocabulary's size), "
            "which bounds the losses"
        )
    return tuple(Objective.from_dict(item.to_dict(guess or 0.0)) for item in objectives)


def _read_file(path: Path) -> tuple[list[tuple[int, Run]], float | None, Space]:
    rows = _read_csv(path)
    columns = rows[0].keys()
    if missing := [name for name in ("epoch", "method") if name not in columns]:
        raise TableError(
            f"{path} has no column {' and no column '.join(missing)}: expected a row per run and epoch; of a sweep give "
            "its folder"
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


def _read_csv(path: Path) -> list[Cells]:
    openers = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    if not path.is_file():
        raise TableError(f"there is no table {path}: expected a CSV, also compressed (.gz, .xz, .bz2), or a sweep's folder")
    try:
        with openers.get(path.suffix, open)(path, "rb") as file:
            content = file.read().decode()
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise TableError(f"cannot read {path}: {error}") from None
    rows = list(csv.DictReader(io.StringIO(content, newline="")))
    if not rows:
        raise TableError(f"{path} has no rows")
    if uneven := next((line for line, row in enumerate(rows, 2) if None in row or None in row.values()), None):
        raise TableError(f"{path}, line {uneven}: it has not as many cells as the header")
    return rows


def space_of(rows: Sequence[Cells]) -> Space:
    """What varies in the rows: learning rates and methods' options on the scale they are searched on, the rest as a
    choice of the values that are there."""
    methods = {row["method"] for row in rows}
    parameters: list[Parameter] = [Choice("method", tuple(dict.fromkeys(row["method"] for row in rows)))]
    for name in PARAMETERS:
        if name in ("method", "seed", "epochs", "target_key") or name not in rows[0]:
            continue
        values = dict.fromkeys(row[name] for row in rows if row[name] != "")
        if len(values) < 2:
            continue
        having = {row["method"] for row in rows if row[name] != ""}
        when = {} if having == methods else {"method": tuple(item for item in parameters[0].points() or () if item in having)}
        numbers = [number(value) for value in values]
        scale = LOG if name == "lr" else _scale_of(name)
        if scale is None:
            parameters.append(Choice(name, tuple(_plain(value) for value in values), when=when))
            continue
        log, to_one = scale == LOG, scale == LOG_TO_ONE
        parameters.append(Number(name, min(numbers), max(numbers), log=log, log_to_one=to_one, when=when))
    return Space.of(parameters)


def _scale_of(name: str) -> str | None:
    """The scale of a method's option; None for what is no number on a scale."""
    ranges = [item.range for item in OPTIONS.values() if item.name == name and item.range is not None]
    return ranges[0].scale if ranges else None


def config_of(space: Space, row: Cells) -> dict[str, Value] | None:
    """The configuration a row tells; None where it is not one of the space."""
    config = dict(space.constants)
    for parameter in space.parameters:
        if (cell := row.get(parameter.name, "")) == "":
            continue
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
        return next((value for value in parameter.values if _plain(cell) == _plain(str(value))), None)
    return int(number(cell)) if parameter.whole else number(cell)


def _plain(cell: str) -> Value:
    """A cell as a number where it is one, so that 1e-3 and 0.001 are one value."""
    value = number(cell)
    return cell if value != value else int(value) if value == int(value) and "." not in cell and "e" not in cell else value
