"""Group the runs of a learning-rate study into Pareto fronts: one front for each task, learning rate and seed.

The points of a front are not independent samples, so statistics over seeds use only the hypervolume of each front.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.study.study_runs import Configuration, MethodTask, StudyRun, study_runs
from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.tables.trade_off import Floats
from analysis.tables.trial_table import TrialTable
from search_spaces.common.objective import Objective


@dataclass(frozen=True, slots=True, eq=False)
class SeedFront:
    """The Pareto front over all configurations (values of c) of a task, for one seed and one learning rate.

    Attributes:
        variant, lr: the AutoLR variant and the learning rate of all runs, as in :class:`StudyRun`.
        missing: the configurations without an outcome (:attr:`StudyRun.has_outcome`). A front without missing
            configurations is complete.
    """

    method_task: MethodTask
    variant: str
    lr: float
    seed: int
    runs: Mapping[Configuration, StudyRun]
    missing: tuple[Configuration, ...]

    def points(self, box: str = "") -> Floats | None:
        """Return the costs of the k finished trials in a reference box, shape (k, m); None if a trial lacks a cost."""
        all_costs = [run.costs_in.get(box) for run in self.runs.values() if run.costs is not None]
        points = [costs for costs in all_costs if costs is not None]
        return None if len(points) < len(all_costs) else np.stack(points) if points else np.empty((0, 2))

    def hypervolume(self, box: str = "") -> float:
        """Return the hypervolume in a reference box; 0 if all runs diverged, NaN if an outcome or a cost is missing."""
        points = self.points(box)
        return math.nan if self.missing or points is None else hypervolume(points)


Arm = Mapping[float, Mapping[int, SeedFront]]
"""The fronts of a method with fixed rates or with one AutoLR variant, keyed by learning rate and then by seed."""


@dataclass(frozen=True, slots=True, eq=False)
class LrGrid:
    """All fronts of a study.

    Attributes:
        runs: all runs, including those without a learning rate or a seed, which are on no front.
        configuration_columns: the names of the settings in a :data:`Configuration`, in order.
        boxes: the names of the additional reference boxes.
        seeds_vary: what the seed of a run changes (:attr:`SweepFile.seeds_vary`).
    """

    fronts: tuple[SeedFront, ...]
    runs: tuple[StudyRun, ...]
    configuration_columns: tuple[str, ...]
    columns: Columns
    notes: tuple[Note, ...]
    boxes: tuple[str, ...]
    seeds_vary: str

    @property
    def method_tasks(self) -> tuple[MethodTask, ...]:
        """The tasks, in the order of the trial table."""
        return tuple(dict.fromkeys(front.method_task for front in self.fronts))

    def variants(self, method_task: MethodTask) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(front.variant for front in self.fronts if front.method_task == method_task and front.variant)
        )

    def arm(self, method_task: MethodTask, variant: str = "") -> Arm:
        """Return the fronts of a task with fixed rates (default) or with an AutoLR variant, sorted by rate and seed."""
        fronts: dict[float, dict[int, SeedFront]] = defaultdict(dict)
        for front in self.fronts:
            if front.method_task == method_task and front.variant == variant:
                fronts[front.lr][front.seed] = front
        return {lr: dict(sorted(fronts[lr].items())) for lr in sorted(fronts)}


def lr_grid(sweeps: Sequence[tuple[TrialTable, Sequence[Objective]]], *, seeds_vary: str = "order") -> LrGrid:
    """Group the runs of one or more sweeps into Pareto fronts.

    Trials with different data settings or training settings belong to different tasks. ``sweeps`` has the table and the
    objectives of each sweep.
    """
    study = study_runs(sweeps, roles=("data", "training"), seeds_vary=seeds_vary)
    notes = [*study.notes, *study.tasks.notes]
    runs_by_front: dict[tuple[MethodTask, str, float, int], dict[Configuration, StudyRun]] = {}
    configurations: dict[MethodTask, dict[Configuration, None]] = defaultdict(dict)
    skipped = 0
    for run in study.runs:
        if run.lr is None or run.seed is None:
            skipped += 1
            continue
        runs_by_front.setdefault((run.method_task, run.variant, run.lr, run.seed), {})[run.configuration] = run
    for (method_task, *_), runs in runs_by_front.items():
        configurations[method_task].update(dict.fromkeys(runs))
    if skipped:
        notes.append(note("runs_without_rate_or_seed", count=skipped))
    fronts = tuple(
        SeedFront(*key, runs, tuple(c for c in configurations[key[0]] if c not in runs or not runs[c].has_outcome))
        for key, runs in runs_by_front.items()
    )
    if incomplete := sum(bool(front.missing) for front in fronts):
        stopped = sum(run.row["status"] == "stopped" for runs in runs_by_front.values() for run in runs.values())
        notes.append(note("incomplete_fronts", count=incomplete, fronts=len(fronts), stopped=stopped))
    boxes = tuple(dict.fromkeys(name for run in study.runs for name in run.costs_in if name))
    return LrGrid(fronts, study.runs, study.configuration_columns, study.columns, tuple(notes), boxes, seeds_vary)
