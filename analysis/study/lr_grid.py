"""The units of a learning-rate study. A unit is the front over c for one task, one seed and one (initial) rate.

The points of a front are not independent samples, so each seed contributes only the hypervolume of its front.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.study.study_runs import Configuration, StudyRun, Task, study_runs
from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.trade_off import Floats, Objective
from analysis.tables.trial_table import TrialTable


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One front: the runs of all configurations of a task with the same seed and learning rate.

    Attributes:
        variant: the variant of AutoLR, such as ``clip/fresh``; empty for a fixed learning rate.
        lr: the fixed learning rate, or the rate from which AutoLR started.
        runs: the run of each configuration.
        missing: the configurations whose run does not exist, was stopped, failed, or lacks an objective.
    """

    task: Task
    variant: str
    lr: float
    seed: int
    runs: Mapping[Configuration, StudyRun]
    missing: tuple[Configuration, ...]

    @property
    def costs(self) -> dict[Configuration, Floats | None]:
        """The costs of each configuration with an outcome, shape (m,), in [0, 1]; None if its run diverged."""
        return {configuration: run.costs for configuration, run in self.runs.items() if run.judged}

    @property
    def points(self) -> Floats:
        """The costs of the finished trials, shape (k, m)."""
        found = [costs for costs in self.costs.values() if costs is not None]
        return np.stack(found) if found else np.empty((0, 2))

    @property
    def hypervolume(self) -> float:
        """The hypervolume of the front; 0 if all trials diverged, NaN if a configuration is missing."""
        return math.nan if self.missing else hypervolume(self.points)

    def further_points(self, box: str) -> Floats | None:
        """Return the finished trials' costs in the reference box ``box``, shape (k, m); None if a cost is unknown."""
        found = [run.further.get(box) for run in self.runs.values() if run.costs is not None]
        measured = [costs for costs in found if costs is not None]
        return None if len(measured) < len(found) else np.stack(measured) if measured else np.empty((0, 2))

    def further_hypervolume(self, box: str) -> float:
        """Return the hypervolume in the reference box ``box``; NaN if a run or a score is missing."""
        points = self.further_points(box)
        return math.nan if self.missing or points is None else hypervolume(points)


Arm = Mapping[float, Mapping[int, Unit]]
"""The units, keyed by learning rate (or the rate from which AutoLR started), then by seed."""


@dataclass(frozen=True, slots=True, eq=False)
class LrGrid:
    """All units of a study.

    Attributes:
        configuration_columns: the columns of a :data:`Configuration`, in order.
        notes: the notes on runs that were left out.
        boxes: the names of the additional reference boxes in which the units are scored.
        seeds_vary: what the seeds vary: ``order``, ``target`` or ``data``. Everything else is equal in all runs.
    """

    units: tuple[Unit, ...]
    configuration_columns: tuple[str, ...]
    columns: Columns
    notes: tuple[Note, ...]
    boxes: tuple[str, ...] = ()
    seeds_vary: str = "order"

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Every task of the study, in the order of the trial table."""
        return tuple(dict.fromkeys(unit.task for unit in self.units))

    def variants(self, task: Task) -> tuple[str, ...]:
        """Return the AutoLR variants that were run on a task."""
        return tuple(dict.fromkeys(unit.variant for unit in self.units if unit.task == task and unit.variant))

    def arm(self, task: Task, variant: str = "") -> dict[float, dict[int, Unit]]:
        """Return the units of a task with fixed rates, or with an AutoLR variant, keyed by rate and then by seed."""
        found: dict[float, dict[int, Unit]] = defaultdict(dict)
        for unit in self.units:
            if unit.task == task and unit.variant == variant:
                found[unit.lr][unit.seed] = unit
        return {lr: dict(sorted(found[lr].items())) for lr in sorted(found)}


def lr_grid(parts: Sequence[tuple[TrialTable, Sequence[Objective]]], *, seeds_vary: str = "order") -> LrGrid:
    """Return the units of one or more sweeps. Each part is the table of a sweep with the sweep's objectives.

    Trials with different data or training settings belong to different tasks and are not pooled. Settings that depend
    on the seed are ignored.

    Raises:
        AnalysisError: the sweeps have different objectives, or a table lacks the column of an objective.
    """
    found = study_runs(parts, roles=("data", "training"), seeds_vary=seeds_vary)
    notes = [*found.notes, *found.problems.notes]
    fronts: dict[tuple[Task, str, float, int], dict[Configuration, StudyRun]] = {}
    expected: dict[Task, dict[Configuration, None]] = defaultdict(dict)
    unplaced = 0
    for run in found.runs:
        if run.lr is None or run.seed is None:
            unplaced += 1
            continue
        fronts.setdefault((run.task, run.variant, run.lr, run.seed), {})[run.configuration] = run
    for (task, *_), front in fronts.items():
        expected[task].update(dict.fromkeys(front))
    if unplaced:
        notes.append(note("runs_without_rate_or_seed", count=unplaced))
    units = tuple(
        Unit(*place, front, tuple(item for item in expected[place[0]] if item not in front or not front[item].judged))
        for place, front in fronts.items()
    )
    if incomplete := sum(bool(unit.missing) for unit in units):
        stopped = sum(run.row["status"] == "stopped" for front in fronts.values() for run in front.values())
        notes.append(note("incomplete_fronts", count=incomplete, fronts=len(units), stopped=stopped))
    boxes = tuple(dict.fromkeys(name for run in found.runs for name in run.further))
    return LrGrid(units, found.configuration_columns, found.columns, tuple(notes), boxes, seeds_vary)
