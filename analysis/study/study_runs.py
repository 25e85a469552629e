"""Convert the trials of one or more sweeps to the runs of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.indicators import further_objectives
from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.tasks import STRUCTURE, Task, Tasks, tasks_of
from analysis.tables.trade_off import Floats, scored, widest
from analysis.tables.trial_table import TrialTable, auto_lr_on
from analysis.words import PROBE_BATCHES, auto_lr_variant, cell, rounded_cell
from search_spaces.common.objective import Objective

Configuration = tuple[object, ...]
"""The values of the settings (except the learning rate) that vary between the trials of a task, such as c."""


@dataclass(frozen=True, slots=True)
class MethodTask:
    """An unlearning method on an unlearning task."""

    task: Task
    method: str

    def __str__(self) -> str:
        return f"{self.method} on {self.task}"


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """One trial of a study.

    Attributes:
        variant: the variant of AutoLR, such as ``clip/fresh``; "" for a fixed rate.
        lr: the fixed learning rate, or AutoLR's initial rate; None if an external table lacks the rate.
        seed: the seed; None if an external table lacks the seed.
        costs_in: maps the name of a reference box to the trial's costs, scaled to [0, 1] with this box, shape (m,). The
            name "" is the box of the sweep's objectives. The costs are None if the trial did not finish or lacks an
            objective of the box.
    """

    method_task: MethodTask
    variant: str
    lr: float | None
    configuration: Configuration
    seed: int | None
    costs_in: Mapping[str, Floats | None]
    row: pd.Series

    @property
    def costs(self) -> Floats | None:
        """The costs of the objectives in [0, 1], shape (m,); None if the trial did not finish or lacks a value."""
        return self.costs_in.get("")

    @property
    def has_outcome(self) -> bool:
        """Whether the trial has an outcome: it has :attr:`costs`, or it diverged."""
        return self.costs is not None or self.diverged

    @property
    def diverged(self) -> bool:
        """Whether the loss became NaN or infinite."""
        return bool(self.row["status"] == "diverged")


@dataclass(frozen=True, slots=True, eq=False)
class StudyRuns:
    """All runs of a study.

    Attributes:
        configuration_columns: the names of the settings in a configuration.
        tasks: the task of every trial, including the trials that are not in ``runs``.
    """

    runs: tuple[StudyRun, ...]
    configuration_columns: tuple[str, ...]
    columns: Columns
    notes: tuple[Note, ...]
    tasks: Tasks


def study_runs(
    sweeps: Sequence[tuple[TrialTable, Sequence[Objective]]], *, roles: Sequence[str], seeds_vary: str
) -> StudyRuns:
    """Return the runs of one or more sweeps.

    If two trials have the same task, AutoLR variant, learning rate, configuration and seed, only the first trial is
    used. A trial without a seed is always a separate run. The costs of all trials on a task are computed with one
    reference box: the smallest box that contains the boxes of their sweeps.

    Args:
        sweeps: the table and the objectives of each sweep.
        roles, seeds_vary: see :func:`analysis.tables.tasks.tasks_of`.

    Raises:
        AnalysisError: the sweeps have different objectives, or a table lacks the column of an objective.
    """
    names = {tuple((objective.column, objective.direction) for objective in objectives) for _, objectives in sweeps}
    if len(names) > 1:
        raise AnalysisError("the sweeps have different objectives, so their hypervolumes are not comparable")
    merged = TrialTable.merge([table for table, _ in sweeps])
    tasks = tasks_of(merged, roles=roles, seeds_vary=seeds_vary)
    varying = tuple(name for name in merged.varying if _is_configuration(merged, name, roles))
    variant_options = _varying_auto_lr_options(merged)
    runs_by_key: dict[tuple[object, ...], StudyRun] = {}
    repeated: list[tuple[pd.Series, pd.Series]] = []
    scores, auto_lr_mask = _costs(sweeps, merged, tasks.of_trials), auto_lr_on(merged.trials)
    for (_, row), task, costs, has_auto_lr in zip(
        merged.trials.iterrows(), tasks.of_trials, scores, auto_lr_mask, strict=True
    ):
        variant = (auto_lr_variant(row, variant_options) or "on") if has_auto_lr else ""
        method_task = MethodTask(task, str(row["method"]))
        configuration = tuple(rounded_cell(row.get(name)) for name in varying)
        lr, seed = rounded_cell(row["lr"]), cell(row["seed"])
        fields = (
            *(method_task, variant, float(lr) if isinstance(lr, (int, float)) else None, configuration),
            int(seed) if isinstance(seed, (int, float)) else None,
        )
        key = (*fields, len(runs_by_key) if seed is None else None)
        if key in runs_by_key:
            repeated.append((runs_by_key[key].row, row))
        else:
            runs_by_key[key] = StudyRun(*fields, costs, row)
    notes = (_repeated(repeated, merged.columns),) if repeated else ()
    return StudyRuns(tuple(runs_by_key.values()), varying, merged.columns, notes, tasks)


def _repeated(pairs: Sequence[tuple[pd.Series, pd.Series]], columns: Columns) -> Note:
    compared = ("status", *columns.outcomes)
    different = [
        any(rounded_cell(first.get(name)) != rounded_cell(second.get(name)) for name in compared)
        for first, second in pairs
    ]
    return note("repeated_runs", count=len(pairs), different=sum(different))


def _costs(
    sweeps: Sequence[tuple[TrialTable, Sequence[Objective]]], merged: TrialTable, tasks: Sequence[Task]
) -> list[dict[str, Floats | None]]:
    sweep_of_trial = np.repeat(np.arange(len(sweeps)), [len(table.trials) for table, _ in sweeps])
    scores = merged.measured(merged.columns.metrics)
    costs_by_trial: list[dict[str, Floats | None]] = [{} for _ in tasks]
    for task in dict.fromkeys(tasks):
        indices = [index for index, other in enumerate(tasks) if other == task]
        box = widest([sweeps[sweep_index][1] for sweep_index in sorted(set(sweep_of_trial[indices]))])
        rows = merged.trials.iloc[indices]
        for name, axes in ({"": box} | further_objectives(box, merged.columns, scores)).items():
            for index, has_costs, costs in zip(indices, *scored(rows, axes), strict=True):
                costs_by_trial[index][name] = costs if has_costs else None
    return costs_by_trial


def _is_configuration(table: TrialTable, name: str, roles: Sequence[str]) -> bool:
    role = table.columns[name].role
    return name not in STRUCTURE and (role == "method" or (role == "training" and role not in roles))


def _varying_auto_lr_options(table: TrialTable) -> tuple[str, ...]:
    trials = table.trials[auto_lr_on(table.trials)]
    options = [name for name in table.spec_columns if table.columns[name].role == "auto_lr"]
    options = [name for name in options if name not in ("auto_lr", PROBE_BATCHES)]
    # Boolean options are excluded, because they only control logging. Rules differ in the defaults of start and probe.
    variants = trials.groupby("auto_lr") if "auto_lr" in trials.columns and len(trials) else None
    if variants is None:
        return ()
    return tuple(name for name in options if trials[name].dtype.kind in "if" and variants[name].nunique().max() > 1)
