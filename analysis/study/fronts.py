"""The fronts of a study's arms side by side: indicators, the reference point's influence, attainment over seeds."""

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
from analysis.study.lr_grid import LrGrid
from analysis.study.verdict import SINGLE, Verdict
from analysis.tables.trade_off import Floats
from analysis.words import number


@dataclass(frozen=True, slots=True)
class ArmFronts:
    """All arms of one problem; an arm is a method at fixed learning rates, or under one AutoLR variant.

    Attributes:
        apart: what sets the problem apart from others on the same model and data set; mostly empty.
        indicators: per arm those of all its trials together, against the front of all arms.
        sensitivity: the arms' hypervolumes with the reference point at several places.
        trials: per arm how many trials with an outcome: the arm with more has had more chances.
        further: the indicators in other boxes, by the box's name, of the arms whose trials were all measured.
    """

    model: str
    dataset: str
    indicators: dict[str, Indicators]
    sensitivity: ReferenceSensitivity
    trials: dict[str, int]
    apart: str = ""
    further: Mapping[str, dict[str, Indicators]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The problem in words."""
        return f"{self.model}, {self.dataset}" + (f" ({self.apart})" if self.apart else "")


@dataclass(frozen=True, slots=True)
class StudyAttainment:
    """AutoLR against the best single learning rate on the fresh seeds; a run is a seed's front over c.

    Attributes:
        arms: their names, AutoLR first. With several starts AutoLR has a run for each start and seed.
        surfaces: per arm, what one, two, ..., all of its runs attain.
        difference: AutoLR's share of runs minus the other's.
    """

    arms: tuple[str, str]
    surfaces: tuple[tuple[AttainmentSurface, ...], tuple[AttainmentSurface, ...]]
    difference: AttainmentDifference


def arm_fronts(grid: LrGrid) -> tuple[ArmFronts, ...]:
    """The arms of every problem, in the order of the table."""
    found = []
    for model, dataset, apart in dict.fromkeys((item.model, item.dataset, item.apart) for item in grid.cases):
        gathered: dict[str, list[Floats]] = {}
        trials: dict[str, int] = {}
        axes = 2
        elsewhere: dict[str, dict[str, list[Floats | None]]] = {box: {} for box in grid.boxes}
        for unit in grid.units:
            if (unit.case.model, unit.case.dataset, unit.case.apart) == (model, dataset, apart):
                policy = f"AutoLR {unit.variant}" if unit.variant else "fixed lr"
                finished = [costs for costs in unit.costs.values() if costs is not None]
                arm = f"{unit.case.method}, {policy}"
                gathered.setdefault(arm, []).extend(finished)
                trials[arm] = trials.get(arm, 0) + len(unit.costs)
                axes = len(finished[0]) if finished else axes
                for box, points in elsewhere.items():
                    points.setdefault(arm, []).append(unit.further_points(box))
        sets = {name: np.stack(costs) if costs else np.empty((0, axes)) for name, costs in gathered.items()}
        further = {box: indicators(_whole(points)) for box, points in elsewhere.items() if _whole(points)}
        found.append(ArmFronts(model, dataset, indicators(sets), reference_sensitivity(sets), trials, apart, further))
    return tuple(found)


def _whole(points: Mapping[str, list[Floats | None]]) -> dict[str, Floats]:
    """Per arm all its points, of the arms that were measured throughout."""
    whole = {arm: parts for arm, parts in points.items() if all(part is not None for part in parts)}
    filled = {arm: [part for part in parts if part is not None and len(part)] for arm, parts in whole.items()}
    return {arm: np.concatenate(parts) if parts else np.empty((0, 2)) for arm, parts in filled.items()}


def study_attainment(grid: LrGrid, verdict: Verdict) -> StudyAttainment:
    """The attainment of both sides of a verdict.

    Raises:
        AnalysisError: the study has more than two objectives.
    """
    single = next(opponent for opponent in verdict.opponents if opponent.name == SINGLE)
    rate = next(iter(single.choice.values()))
    hand = [grid.arm(verdict.case)[rate][seed].points for seed in verdict.fresh]
    auto = [units[seed].points for units in grid.arm(verdict.case, verdict.variant).values() for seed in verdict.fresh]
    return StudyAttainment(
        (f"AutoLR {verdict.variant}", f"lr {number(rate)}"),
        (attainment_surfaces(auto), attainment_surfaces(hand)),
        attainment_difference(auto, hand),
    )
