"""Compare the Pareto fronts of a study's arms.

An arm consists of all runs of one method on one task, either with fixed rates or with one AutoLR variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.frontier.indicators import Indicators, indicators
from analysis.study.lr_grid import LrGrid, SeedFront
from analysis.tables.tasks import Task
from analysis.tables.trade_off import Floats


@dataclass(frozen=True, slots=True)
class ArmFronts:
    """The comparison of all arms of a task.

    Attributes:
        indicators: the indicators of each arm, relative to the Pareto front of all arms together.
        trials: the number of runs of each arm that have an outcome (:attr:`StudyRun.has_outcome`). Arms with more runs
            have an advantage.
        further: the indicators of each arm in each additional reference box, keyed by box and then by arm. An arm is
            left out if a finished run lacks an objective of the box.
    """

    task: Task
    indicators: dict[str, Indicators]
    trials: dict[str, int]
    further: Mapping[str, dict[str, Indicators]]


def arm_fronts(grid: LrGrid) -> tuple[ArmFronts, ...]:
    """Compare the arms of every task. The tasks are in the order of the trial table."""
    comparisons = []
    for task in dict.fromkeys(item.task for item in grid.method_tasks):
        fronts_by_arm: dict[str, list[SeedFront]] = {}
        for front in grid.fronts:
            if front.method_task.task == task:
                policy = f"AutoLR {front.variant}" if front.variant else "fixed lr"
                fronts_by_arm.setdefault(f"{front.method_task.method}, {policy}", []).append(front)
        points_by_arm = _points(fronts_by_arm, "")
        further = {box: indicators(points) for box in grid.boxes if (points := _points(fronts_by_arm, box))}
        trials = {
            arm: sum(run.has_outcome for front in fronts for run in front.runs.values())
            for arm, fronts in fronts_by_arm.items()
        }
        comparisons.append(ArmFronts(task, indicators(points_by_arm), trials, further))
    return tuple(comparisons)


def _points(fronts_by_arm: Mapping[str, Sequence[SeedFront]], box: str) -> dict[str, Floats]:
    """Return the costs of each arm in one reference box. An arm is left out if a finished run lacks a cost."""
    by_arm = {arm: [front.points(box) for front in fronts] for arm, fronts in fronts_by_arm.items()}
    filled = {arm: [points for points in sets if points is not None and len(points)] for arm, sets in by_arm.items()}
    axes = next((sets[0].shape[1] for sets in filled.values() if sets), 2)
    complete_arms = [arm for arm, sets in by_arm.items() if all(points is not None for points in sets)]
    return {arm: np.concatenate([np.empty((0, axes)), *filled[arm]]) for arm in complete_arms}
