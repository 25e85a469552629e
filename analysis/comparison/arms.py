"""Assign each trial of a comparison to a row of its table, to a side of this row, and to a configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.sources import Sources
from analysis.tables.sweep_file import SweepFile
from analysis.tables.tasks import STRUCTURE
from analysis.tables.trade_off import Floats, Mask, scored, widest
from analysis.tables.trial_table import TrialTable, auto_lr_on
from analysis.words import PROBE_BATCHES, auto_lr_variant, cell, format_policy, number, rounded_cell
from search_spaces.common.values import plain_name

Settings = tuple[tuple[str, object], ...]
"""Pairs (name, value) of settings that a trial has, without missing values."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """A method, and the values of its options that were given as lists of values, such as c = 0.9."""

    method: str
    options: Settings = ()

    @property
    def label(self) -> str:
        """The method and its options, such as ``gdiff c=0.9``."""
        return " ".join([self.method, *(f"{name}={number(value)}" for name, value in self.options)])


@dataclass(frozen=True, slots=True, eq=False)
class ComparedTrial:
    """One trial of a comparison.

    Attributes:
        rate: the learning rate as text, such as ``lr 1e-4`` or ``AutoLR gen/same from lr 1e-4``; "" if it is unknown.
        configuration: the settings that vary between the trials of the comparison and are not in ``key``.
        seed: the seed; None if an external table lacks the seed.
        primary_costs, costs: the costs in [0, 1] of the primary metrics and of the objectives, shape (m,). The costs of
            a trial that did not finish, or that lacks a value, are 1. Without a primary metric (or objective) in the
            whole task, the shape is (0,).
    """

    key: RowKey
    with_auto: bool
    rate: str
    configuration: Settings
    seed: int | None
    primary_costs: Floats
    costs: Floats
    row: pd.Series

    @property
    def is_finished(self) -> bool:
        return bool(self.row["status"] == "finished")


def compared_trials(table: TrialTable, sources: Mapping[str, Sources]) -> tuple[list[ComparedTrial], list[Note]]:
    """Return the trials of one task, without repeated trials, and a note on the repeated trials.

    If two trials have the same row, side, rate, configuration and seed, only the first trial is used. A trial without a
    seed is never a repetition.

    Args:
        sources: the sources of the trials, keyed by the name in the column ``sweep``.
    """
    columns, trials = table.columns, table.trials
    varying = _varying(table)
    listed = {name: _listed_options(item.sweep, columns) for name, item in sources.items()}
    auto_lr_options = _varying_auto_lr_options(table)
    primary_costs = _costs(*scored(trials, columns.primary_objectives(table.measured(columns.metrics))))
    box = widest([item.sweep.objectives for item in sources.values() if item.sweep.objectives])
    costs, numbers_without_seed = _costs(*scored(trials, box)), count()
    by_identity: dict[tuple[object, ...], ComparedTrial] = {}
    repeated: list[tuple[pd.Series, pd.Series]] = []
    for index, ((_, row), with_auto) in enumerate(zip(trials.iterrows(), auto_lr_on(trials), strict=True)):
        options = listed[row["sweep"]]
        settings = {name: rounded_cell(row.get(name)) for name in varying}
        given = {name: rounded_cell(row.get(name)) for name in options}
        key = RowKey(str(row["method"]), _present(given))
        configuration = _present({name: value for name, value in settings.items() if name not in options})
        rate = _rate(row, auto_lr_options, with_auto=bool(with_auto))
        seed = cell(row["seed"])
        number_of_seed = int(seed) if isinstance(seed, (int, float)) else None
        trial = ComparedTrial(
            key, bool(with_auto), rate, configuration, number_of_seed, primary_costs[index], costs[index], row
        )
        unique = next(numbers_without_seed) if number_of_seed is None else None
        identity = (key, bool(with_auto), rate, rounded_cell(row["lr"]), configuration, number_of_seed, unique)
        if identity in by_identity:
            repeated.append((by_identity[identity].row, row))
        else:
            by_identity[identity] = trial
    return list(by_identity.values()), [_repeated(repeated, columns)] if repeated else []


def _varying(table: TrialTable) -> list[str]:
    """Return the settings of a configuration: training settings, and method options with several values for a method.

    In contrast to :attr:`TrialTable.varying`, the options in the rows of external tables count.
    """
    roles = {name: table.columns[name].role for name in table.spec_columns if name not in STRUCTURE}
    options = [name for name, role in roles.items() if role == "method"]
    by_method = table.trials[options].map(rounded_cell).groupby(table.trials["method"])
    varying_options = [name for name in options if (by_method[name].nunique() > 1).any()]
    return [*(name for name in table.varying if roles.get(name) == "training"), *varying_options]


def _listed_options(sweep: SweepFile, columns: Columns) -> tuple[str, ...]:
    """Return the method options whose values were listed, and not searched in a range.

    In a grid search and in a table without a search space, such as an external table, every option counts as listed.
    """
    options = [name for name in columns.entries if columns[name].role == "method" and name not in STRUCTURE]
    space = sweep.settings.get("space")
    if not isinstance(space, Mapping):
        return tuple(options)
    is_grid = sweep.settings.get("sampler") == "grid"
    parameters = [item for item in space.get("parameters", ()) if is_grid or item.get("type") == "choice"]
    names = {str(item["name"]) for item in parameters} | set(map(plain_name, space.get("constants", {})))
    return tuple(name for name in options if name in names)


def _varying_auto_lr_options(table: TrialTable) -> list[str]:
    trials = table.trials[auto_lr_on(table.trials)]
    options = [name for name in table.spec_columns if table.columns[name].role == "auto_lr"]
    options = [name for name in options if name not in ("auto_lr", PROBE_BATCHES)]
    # Boolean options are excluded, because they only control logging.
    return [name for name in options if trials[name].dtype.kind in "if" and trials[name].nunique() > 1]


def _rate(row: pd.Series, auto_lr_options: Sequence[str], *, with_auto: bool) -> str:
    lr = cell(row["lr"])
    if with_auto:
        return format_policy(auto_lr_variant(row, auto_lr_options), lr)
    return "" if lr is None else f"lr {number(lr)}"


def _present(settings: Mapping[str, object]) -> Settings:
    return tuple((name, value) for name, value in settings.items() if value is not None)


def _costs(is_scored: Mask, costs: Floats) -> Floats:
    """Replace the costs of trials without a score by the worst cost, 1."""
    return np.where(is_scored[:, None], costs, 1.0)


def _repeated(pairs: Sequence[tuple[pd.Series, pd.Series]], columns: Columns) -> Note:
    compared = ("status", *columns.outcomes)
    differences = Counter(
        any(rounded_cell(first.get(name)) != rounded_cell(second.get(name)) for name in compared)
        for first, second in pairs
    )
    return note("repeated_runs", count=len(pairs), different=differences[True])
