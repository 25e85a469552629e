"""Group trials by unlearning task. Losses of different tasks are not comparable."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.tables.columns import short
from analysis.tables.note import Note, note
from analysis.tables.sources import Sources, differences, shared
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Mask
from analysis.tables.trial_table import TrialTable
from analysis.words import number, rounded_cell

STRUCTURE = ("model", "dataset", "method", "lr", "seed")
"""Columns that never distinguish two tasks with the same model and data set."""
_BY_SEED = {"target": ("target_key", "target_seed"), "data": ("target_key", "data_seed")}
"""The columns that depend on the seed, for each value of the setting ``seeds_vary``."""
SEED_COLUMNS = ("target_key", "target_seed", "data_seed")
"""The columns that may depend on the seed."""


class Task(NamedTuple):
    """An unlearning task: a model, a data set, and the settings that distinguish it from other tasks.

    Attributes:
        apart: these settings as text, such as ``forget split forget01``; "" if there is only one task with this
            model and data set.
    """

    model: str
    dataset: str
    apart: str = ""

    def __str__(self) -> str:
        """Return text such as ``tiny-phi, tofu (forget split forget01)``."""
        return f"{self.model}, {self.dataset}" + (f" ({self.apart})" if self.apart else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a figure's file name: model, data set and :attr:`apart`, without empty words."""
        return tuple(filter(None, self))


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """The unlearning tasks in a trial table.

    Attributes:
        of_trials: the task of each trial, in the order of the table.
        columns: for each pair (model, data set), the columns that distinguish its tasks.
        cells: a row for each trial with its values in all columns that may distinguish tasks; None for a missing
            value.
    """

    of_trials: tuple[Task, ...]
    columns: Mapping[tuple[str, str], Sequence[str]]
    cells: pd.DataFrame

    @property
    def notes(self) -> tuple[Note, ...]:
        """A note for each pair (model, data set) with several tasks."""
        return tuple(
            note("several_tasks", place=key, columns=tuple(names)) for key, names in self.columns.items() if names
        )


def tasks_of(
    table: TrialTable, sweep: SweepFile | None = None, *, roles: Sequence[str] = ("data",), seeds_vary: str = "order"
) -> Tasks:
    """Return the unlearning task of every trial.

    Trials with the same model and data set belong to different tasks if they differ in a column with one of the
    ``roles``. An unknown cell takes the value of the other trials with the same model and data set, if these trials
    have equal values. Otherwise, "unknown" counts as a separate value.

    Args:
        sweep: the settings of the sweeps. The value of an empty cell is unknown if the row is from an external table,
            or if the row's sweep lacks the column. By default, no value is unknown.
        roles: the roles of the columns that distinguish tasks.
        seeds_vary: what the seed of a trial changes (:attr:`SweepFile.seeds_vary`). Columns that depend on the seed do
            not distinguish tasks.
    """
    trials = table.without_external.trials
    names = [name for name in table.spec_columns if name not in STRUCTURE and table.columns[name].role in roles]
    by_seed = _seed_columns(trials, names, seeds_vary)
    names = [name for name in names if name not in by_seed]
    keys = pd.Series(list(zip(table.trials["model"], table.trials["dataset"], strict=True)), table.trials.index)
    values = {n: pd.Series(map(rounded_cell, table.trials[n]), table.trials.index, dtype=object) for n in names}
    cells = pd.DataFrame(values, table.trials.index)
    unknown = _unknown_cells(table, cells, sweep)
    columns: dict[tuple[str, str], list[str]] = {}
    for key in dict.fromkeys(keys[trials.index]):
        has_key = keys == key
        for name in names:
            known = cells.loc[has_key & ~unknown[name], name].unique()
            if len(known) == 1:
                cells.loc[has_key & unknown[name], name] = known[0]
        rows = cells.loc[trials.index.intersection(cells.index[has_key])]
        varying = [name for name in names if rows[name].nunique(dropna=False) > 1]
        # The hash target_key is left out if the other columns distinguish all tasks.
        without_hash = [name for name in varying if name != "target_key"]
        count = len(rows[without_hash].drop_duplicates()) if without_hash else 1
        columns[key] = without_hash if count == len(rows[varying].drop_duplicates()) else varying
    tasks = (
        Task(model, dataset, ", ".join(_format_setting(c, row[c]) for c in columns.get((model, dataset), ())))
        for (model, dataset), (_, row) in zip(keys, cells.iterrows(), strict=True)
    )
    return Tasks(tuple(tasks), columns, cells)


def _seed_columns(trials: pd.DataFrame, columns: Sequence[str], seeds_vary: str) -> Sequence[str]:
    """Return the columns whose values depend on the seed; () if one of them has several values for the same seed."""
    names = [name for name in _BY_SEED.get(seeds_vary, ()) if name in columns]
    others = [name for name in columns if name not in names]
    by_seed = trials.groupby(["model", "dataset", "seed", *others], dropna=False, sort=False)
    return names if all((by_seed[name].nunique(dropna=False) <= 1).all() for name in names) else ()


def _unknown_cells(table: TrialTable, cells: pd.DataFrame, sweep: SweepFile | None) -> pd.DataFrame:
    """Return a mask of the unknown cells: empty cells of external tables, or of sweeps that lack the column."""
    mask = np.zeros(cells.shape, dtype=bool)
    if sweep is not None:
        external = table.trials["external"].to_numpy(dtype=bool)
        for index, name in enumerate(cells.columns):
            lacking = [sweep_name for sweep_name, file in sweep.files.items() if name not in file.columns]
            mask[:, index] = external | table.trials["sweep"].isin(lacking).to_numpy()
    return pd.DataFrame(mask & cells.isna().to_numpy(dtype=bool), cells.index, cells.columns)


def _format_setting(name: str, value: object) -> str:
    return f"no {short(name)}" if value is None else f"{short(name)} {number(value)}"


def by_task(sources: Sources) -> tuple[dict[Task, Sources], tuple[Note, ...]]:
    """Split the sources by task, in the order of the table. Also return the notes on all tasks.

    A row of an external table belongs to every task that matches its known values. A row without a matching task
    is left out. If the sweeps have no trials, all sources belong to one task with empty names.
    """
    table, sweep = sources.table, sources.sweep
    tasks = tasks_of(table, sweep, seeds_vary=sweep.seeds_vary)
    external = table.trials["external"].to_numpy(dtype=bool)
    distinct = dict.fromkeys(
        task for task, is_external in zip(tasks.of_trials, external, strict=True) if not is_external
    )
    if not distinct:
        return {Task("", ""): sources}, table.notes
    masks = {task: _task_mask(table, tasks, task) for task in distinct}
    unmatched = table.trials["trial_id"].to_numpy()[~np.any(list(masks.values()), axis=0)].tolist()
    split = {task: _sources_of(sources, mask, alone=len(distinct) == 1) for task, mask in masks.items()}
    notes = [*table.notes, *tasks.notes]
    if len(split) > 1:
        # Only sweeps on the same task are scored together, so only differences between these sweeps are noted.
        notes = [item for item in notes if item not in differences(sweep)]
        notes += [replace(item, source=str(task)) for task, part in split.items() for item in differences(part.sweep)]
    if unmatched:
        notes.append(note("rows_on_no_frontier", rows=tuple(unmatched)))
    return split, tuple(notes)


def file_stem(name: str, *words: str) -> str:
    """Join the words to the stem of a figure's file name. Special characters become hyphens."""
    return re.sub(r"[^\w-]", "-", "_".join((name, *words)))


def _task_mask(table: TrialTable, tasks: Tasks, task: Task) -> Mask:
    """Return a mask, shape (trials,), of a task's trials and of the external trials that may belong to it."""
    external = table.trials["external"].to_numpy(dtype=bool)
    mask = np.array([other == task for other in tasks.of_trials], dtype=bool) & ~external
    first = table.trials.index[mask][0]
    may_match = external.copy()
    for column in ("model", "dataset"):
        may_match &= table.trials[column].isin(("", table.trials.at[first, column])).to_numpy()
    for column in tasks.columns[task.model, task.dataset]:
        value = tasks.cells.at[first, column]
        may_match &= np.array([cell is None or cell == value for cell in tasks.cells[column]], dtype=bool)
    return np.asarray(mask | may_match, dtype=bool)


def _sources_of(sources: Sources, mask: Mask, *, alone: bool) -> Sources:
    table = sources.table
    task_table = table.with_trials(table.trials[mask])
    if alone:
        return replace(sources, table=task_table)
    names = set(task_table.trials["sweep"])
    files = {name: file for name, file in sources.sweep.files.items() if name in names}
    # A single run has no sweep.json with the scores of its target, and must not use the baseline of another task.
    sweep = shared(files) if files else replace(sources.sweep, baseline={}, files={})
    other_names = set(table.trials.loc[~mask, "sweep"])
    if not files or names & other_names & set(files):
        sweep = replace(sweep, settings={**sweep.settings, "trials": None})
    return Sources(task_table, sweep)
