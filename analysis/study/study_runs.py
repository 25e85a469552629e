"""The runs of a study: task, learning-rate policy, configuration and seed of every trial of one or several sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.indicators import further_objectives
from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.problems import STRUCTURE, Problem, Problems, problems_of
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Objective, scored, widest
from analysis.tables.trial_table import TrialTable, auto_lr_on
from analysis.words import PROBE_BATCHES, auto_lr_variant, known, nominal

Configuration = tuple[object, ...]
"""What a person varies besides the learning rate: c, and any other option or field in which trials differ."""


@dataclass(frozen=True, slots=True)
class Task:
    """The model, the data set and the unlearning method.

    Attributes:
        apart: the data and training in which the problem differs from others on the same model and data set, such as
            ``epochs 3, batch size 8``; empty if there is no other.
    """

    model: str
    dataset: str
    method: str
    apart: str = ""

    def __str__(self) -> str:
        return f"{self.method} on {self.problem}"

    @property
    def problem(self) -> Problem:
        """The task without its method."""
        return Problem(self.model, self.dataset, self.apart)

    @property
    def names(self) -> tuple[str, ...]:
        """Its parts, for the name of a file."""
        return tuple(filter(None, (self.model, self.dataset, self.method, self.apart)))


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """One trial with its place in the study.

    Attributes:
        variant: AutoLR's, such as ``clip/fresh``; empty for a fixed learning rate.
        lr: the fixed learning rate, or AutoLR's start; None if an external table does not say.
        seed: None if an external table does not say.
        costs: shape (m,), in [0, 1], of a finished trial with all objectives; else None.
        row: the row of the trial table.
        further: costs in other reference boxes, by name (:func:`analysis.frontier.indicators.further_objectives`).
    """

    task: Task
    variant: str
    lr: float | None
    configuration: Configuration
    seed: int | None
    costs: Floats | None
    row: pd.Series
    further: Mapping[str, Floats | None] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether the trial has an outcome: it is scored, or it diverged and so attains nothing.

        A trial that failed or was stopped, by a user or a scheduler, does not show how its configuration ends.
        """
        return self.costs is not None or self.diverged

    @property
    def diverged(self) -> bool:
        """Whether the loss became NaN or infinite, so that there is no model."""
        return bool(self.row["status"] == "diverged")

    @property
    def train_seconds(self) -> float:
        """Time in training; NaN if not recorded."""
        return float(self.row.get("train_seconds", math.nan))


@dataclass(frozen=True, slots=True, eq=False)
class StudyRuns:
    """All runs; ``configuration_columns`` name the parts of a configuration, ``notes`` say what was left out.

    ``problems`` are those of all trials that were read, including those left out.
    """

    runs: tuple[StudyRun, ...]
    configuration_columns: tuple[str, ...]
    columns: Columns
    notes: tuple[Note, ...]
    problems: Problems


def study_runs(
    parts: Sequence[tuple[TrialTable, Sequence[Objective]]],
    sweep: SweepFile | None = None,
    *,
    roles: Sequence[str] = ("data",),
    seeds_vary: str = "order",
) -> StudyRuns:
    """The runs of one or several sweeps, each with its own objectives (and thus bounds).

    The first of two trials with the same task, policy, configuration (compared by nine digits) and seed counts; a trial
    without a seed is a run of its own. Trials belong to different tasks if they differ in a column of ``roles``
    (target, split, ...; with ``training`` also epochs, batch size, optimizer, ...), as
    :func:`analysis.tables.problems.problems_of` finds it by ``sweep``, and not only in what ``seeds_vary``. The trials
    of a problem are scored in one reference box, the widest of their sweeps.

    Raises:
        AnalysisError: sweeps with different objectives, or a table without a column of them.
    """
    names = {tuple((objective.column, objective.direction) for objective in objectives) for _, objectives in parts}
    if len(names) > 1:
        raise AnalysisError("the sweeps have different objectives: their hypervolumes do not compare")
    merged = TrialTable.merge([table for table, _ in parts])
    problems = problems_of(merged, sweep, roles=roles, seeds_vary=seeds_vary)
    varying = tuple(name for name in merged.varying if _is_configuration(merged, name, roles))
    of_variant = _numbers_of_variants(merged)
    found: dict[tuple[object, ...], StudyRun] = {}
    repeated: list[tuple[pd.Series, pd.Series]] = []
    scores, automatics = _costs(parts, merged, problems.of), auto_lr_on(merged.trials)
    for (_, row), problem, (own, further), automatic in zip(
        merged.trials.iterrows(), problems.of, scores, automatics, strict=True
    ):
        variant = (auto_lr_variant(row, of_variant) or "on") if automatic else ""
        task = Task(problem.model, problem.dataset, str(row["method"]), problem.apart)
        configuration = tuple(nominal(row.get(name)) for name in varying)
        lr, seed = nominal(row["lr"]), known(row["seed"])
        place = (
            *(task, variant, float(lr) if isinstance(lr, (int, float)) else None, configuration),
            int(seed) if isinstance(seed, (int, float)) else None,
        )
        key = (*place, len(found) if seed is None else None)
        if key in found:
            repeated.append((found[key].row, row))
        else:
            found[key] = StudyRun(*place, own, row, further)
    notes = (_repeated(repeated, merged.columns),) if repeated else ()
    return StudyRuns(tuple(found.values()), varying, merged.columns, notes, problems)


def _repeated(pairs: Sequence[tuple[pd.Series, pd.Series]], columns: Columns) -> Note:
    """The note on pairs of a trial and a later one in its place: how many, and which ended differently."""
    compared = ("status", *columns.outcomes)
    different = tuple(
        (_named(first, later), _named(later, first))
        for first, later in pairs
        if any(nominal(first.get(name)) != nominal(later.get(name)) for name in compared)
    )
    return note("repeated_runs", count=len(pairs), different=different)


def _named(trial: pd.Series, other: pd.Series) -> str:
    """The id of a trial, with its sweep if the other trial has the same id."""
    name = str(trial["trial_id"])
    return f"{trial['sweep']}/{name}" if name == other["trial_id"] else name


def _costs(
    parts: Sequence[tuple[TrialTable, Sequence[Objective]]], merged: TrialTable, problems: Sequence[Problem]
) -> list[tuple[Floats | None, dict[str, Floats | None]]]:
    """For each trial of ``merged`` its costs in the box of its problem, shape (m,), and in further boxes by name."""
    of_part = np.repeat(np.arange(len(parts)), [len(table.trials) for table, _ in parts])
    scores = merged.measured(merged.columns.metrics)
    found: list[tuple[Floats | None, dict[str, Floats | None]]] = [(None, {})] * len(problems)
    for problem in dict.fromkeys(problems):
        places = [place for place, other in enumerate(problems) if other == problem]
        box = widest([parts[part][1] for part in sorted(set(of_part[places]))])
        rows = merged.trials.iloc[places]
        boxes = {"": box} | further_objectives(box, merged.columns, scores)
        costs = {name: zip(*scored(rows, axes), strict=True) for name, axes in boxes.items()}
        of_box = {name: [line if is_known else None for is_known, line in lines] for name, lines in costs.items()}
        for index, place in enumerate(places):
            here = {name: lines[index] for name, lines in of_box.items()}
            found[place] = here.pop(""), here
    return found


def _is_configuration(table: TrialTable, name: str, roles: Sequence[str]) -> bool:
    """Whether trials that differ in this column are different configurations of one task."""
    role = table.columns[name].role
    return name not in STRUCTURE and (role == "method" or (role == "training" and role not in roles))


def _numbers_of_variants(table: TrialTable) -> tuple[str, ...]:
    """AutoLR's numeric options in which the trials with AutoLR differ."""
    trials = table.trials[auto_lr_on(table.trials)]
    options = [name for name in table.spec_columns if table.columns[name].role == "auto_lr"]
    options = [name for name in options if name not in ("auto_lr", PROBE_BATCHES)]
    # A truth value among them only says what is logged.
    return tuple(name for name in options if trials[name].dtype.kind in "if" and trials[name].nunique() > 1)
