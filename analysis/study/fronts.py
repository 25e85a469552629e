"""Compare the fronts of a study's arms by indicators, by hypervolumes and by attainment over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from analysis.frontier.attainment import (
    AttainmentDifference,
    AttainmentSurface,
    attainment_difference,
    attainment_surfaces,
)
from analysis.frontier.indicators import Indicators, ReferenceSensitivity, indicators, reference_sensitivity
from analysis.study.lr_grid import LrGrid, Unit
from analysis.study.verdict import Verdict
from analysis.tables.problems import Problem
from analysis.tables.trade_off import Floats
from analysis.words import number


@dataclass(frozen=True, slots=True)
class ArmFronts:
    """The comparison of all arms of a problem. An arm is a method at fixed rates or with one AutoLR variant.

    Attributes:
        indicators: the quality indicators of each arm, which compare all its trials with the front of all arms.
        sensitivity: the hypervolumes of the arms for several reference points.
        trials: the number of trials with an outcome in each arm. An arm with more trials has an advantage.
        further: the indicators in each additional reference box, keyed by the name of the box. Arms with unmeasured
            trials are left out.
    """

    problem: Problem
    indicators: dict[str, Indicators]
    sensitivity: ReferenceSensitivity
    trials: dict[str, int]
    further: Mapping[str, dict[str, Indicators]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StudyAttainment:
    """The attainment of AutoLR and of the best single learning rate.

    A run is the front over c on one fresh seed. AutoLR has a run for each pair of an initial rate and a seed.

    Attributes:
        arms: the names of the two arms; AutoLR comes first.
        surfaces: for each arm, the surfaces that at least one run, two runs, ..., all runs attain.
        difference: the regions that AutoLR attains in a larger or smaller share of runs than the best single rate.
    """

    arms: tuple[str, str]
    surfaces: tuple[tuple[AttainmentSurface, ...], tuple[AttainmentSurface, ...]]
    difference: AttainmentDifference


def arm_fronts(grid: LrGrid) -> tuple[ArmFronts, ...]:
    """Compare the arms of every problem. The problems are in the order of the table."""
    found = []
    for problem in dict.fromkeys(task.problem for task in grid.tasks):
        units: dict[str, list[Unit]] = {}
        for unit in grid.units:
            if unit.task.problem == problem:
                policy = f"AutoLR {unit.variant}" if unit.variant else "fixed lr"
                units.setdefault(f"{unit.task.method}, {policy}", []).append(unit)
        costs = {arm: [item for unit in own for item in unit.costs.values()] for arm, own in units.items()}
        finished = {arm: [item for item in every if item is not None] for arm, every in costs.items()}
        axes = next((len(items[0]) for items in finished.values() if items), 2)
        sets = {arm: np.stack(items) if items else np.empty((0, axes)) for arm, items in finished.items()}
        further = {}
        for box in grid.boxes:
            points = {arm: [unit.further_points(box) for unit in own] for arm, own in units.items()}
            if whole := _whole(points):
                further[box] = indicators(whole)
        trials = {arm: len(every) for arm, every in costs.items()}
        found.append(ArmFronts(problem, indicators(sets), reference_sensitivity(sets), trials, further))
    return tuple(found)


def _whole(points: Mapping[str, list[Floats | None]]) -> dict[str, Floats]:
    """Return all points of each arm, keyed by arm. An arm is left out if one of its units was not measured."""
    whole = {arm: parts for arm, parts in points.items() if all(part is not None for part in parts)}
    filled = {arm: [part for part in parts if part is not None and len(part)] for arm, parts in whole.items()}
    return {arm: np.concatenate(parts) if parts else np.empty((0, 2)) for arm, parts in filled.items()}


def study_attainment(grid: LrGrid, verdict: Verdict) -> StudyAttainment:
    """Return the attainment of the two arms that a verdict compares: AutoLR and the best single rate.

    Raises:
        AnalysisError: the study has more than two objectives.
    """
    rate = next(iter(verdict.single.choice.values()))
    hand = [grid.arm(verdict.task)[rate][seed].points for seed in verdict.fresh]
    auto = [units[seed].points for units in grid.arm(verdict.task, verdict.variant).values() for seed in verdict.fresh]
    return StudyAttainment(
        (f"AutoLR {verdict.variant}", f"lr {number(rate)}"),
        (attainment_surfaces(auto), attainment_surfaces(hand)),
        attainment_difference(auto, hand),
    )
