"""Compare the Pareto fronts of a study's arms.

An arm consists of all runs of one method on one problem, either with fixed rates or with one AutoLR variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.indicators import Indicators, indicators
from analysis.study.lr_grid import LrGrid, SeedFront
from analysis.tables.problems import Problem
from analysis.tables.trade_off import Floats


@dataclass(frozen=True, slots=True)
class ArmFronts:
    """The comparison of all arms of a problem.

    Attributes:
        indicators: the indicators of each arm, relative to the Pareto front of all arms together.
        trials: the number of runs of each arm that have an outcome (:attr:`StudyRun.has_outcome`). Arms with more runs
            have an advantage.
        further: the indicators of each arm in each additional reference box, keyed by box and then by arm. An arm is
            left out if a finished run lacks an objective of the box.
    """

    problem: Problem
    indicators: dict[str, Indicators]
    trials: dict[str, int]
    further: Mapping[str, dict[str, Indicators]]


def arm_fronts(grid: LrGrid) -> tuple[ArmFronts, ...]:
    """Compare the arms of every problem. The problems are in the order of the trial table."""
    found = []
    for problem in dict.fromkeys(task.problem for task in grid.tasks):
        units: dict[str, list[SeedFront]] = {}
        for unit in grid.fronts:
            if unit.task.problem == problem:
                policy = f"AutoLR {unit.variant}" if unit.variant else "fixed lr"
                units.setdefault(f"{unit.task.method}, {policy}", []).append(unit)
        sets = _points(units, "")
        further = {box: indicators(points) for box in grid.boxes if (points := _points(units, box))}
        trials = {arm: sum(run.has_outcome for unit in own for run in unit.runs.values()) for arm, own in units.items()}
        found.append(ArmFronts(problem, indicators(sets), trials, further))
    return tuple(found)


def _points(units: Mapping[str, Sequence[SeedFront]], box: str) -> dict[str, Floats]:
    """Return the costs of each arm in one reference box. An arm is left out if a finished run lacks a cost."""
    parts = {arm: [unit.points(box) for unit in own] for arm, own in units.items()}
    filled = {arm: [part for part in own if part is not None and len(part)] for arm, own in parts.items()}
    axes = next((own[0].shape[1] for own in filled.values() if own), 2)
    whole = [arm for arm, own in parts.items() if all(part is not None for part in own)]
    return {arm: np.concatenate([np.empty((0, axes)), *filled[arm]]) for arm in whole}
