"""Measure how much a method's result depends on the learning rate.

The result of a learning rate is the hypervolume of its Pareto front over all values of c, averaged over seeds. Only the
*compared* seeds count, on which all rates have a complete front. Otherwise, a rate could look better only because it
has other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import stdev

import numpy as np

from analysis.study.hand_tuning import best_rate
from analysis.study.lr_grid import Arm, LrGrid, SeedFront
from analysis.study.study_runs import Task
from analysis.study.verdict import WITHIN
from analysis.tables.trial_table import finite_cell


@dataclass(frozen=True, slots=True)
class RateRow:
    """The results for one fixed learning rate, or for one initial rate of AutoLR.

    Attributes:
        hypervolume: the mean over the compared seeds; NaN without compared seeds.
        deviation: the standard deviation of the hypervolume over the compared seeds; NaN for fewer than 2 seeds.
        seeds: the number of compared seeds.
        diverged: the number of diverged trials on all seeds.
        metrics: the mean of each measured metric over the finished trials on the compared seeds or, without compared
            seeds, on all seeds.
        further: the mean hypervolume in each additional reference box, keyed by box; NaN if a score is missing.
    """

    lr: float
    hypervolume: float
    deviation: float
    seeds: int
    diverged: int
    metrics: dict[str, float]
    further: dict[str, float]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The sensitivity of one method on one model and data set to the learning rate.

    Attributes:
        rates: a row for each fixed learning rate, in ascending order.
        best_lr: the rate with the highest mean hypervolume; None if every hypervolume is zero or unknown.
        near_best: the lowest and the highest rate of the range around the best rate in which every rate has at least
            95% of the best rate's hypervolume; None without a best rate.
        spread: the largest hypervolume minus the smallest hypervolume.
        auto: for each AutoLR variant, a row for each initial rate. The compared seeds of these rows are the seeds on
            which the variant and all fixed rates have complete fronts.
        left_out: the seeds on which only some of the rates have a complete front.
    """

    task: Task
    rates: tuple[RateRow, ...]
    best_lr: float | None
    near_best: tuple[float, float] | None
    spread: float
    auto: dict[str, tuple[RateRow, ...]]
    left_out: tuple[int, ...]

    @property
    def decades(self) -> float | None:
        """The width of the range ``near_best``, in powers of ten."""
        return None if self.near_best is None else math.log10(self.near_best[1] / self.near_best[0])

    @property
    def at_edge(self) -> bool:
        """Whether the best rate is the lowest or the highest of several rates."""
        return len(self.rates) > 1 and self.best_lr in (self.rates[0].lr, self.rates[-1].lr)

    @property
    def diverged(self) -> int:
        return sum(row.diverged for row in self.rates)

    @property
    def has_front(self) -> bool:
        """Whether there is a seed on which all rates have a complete front."""
        return any(row.seeds for row in self.rates)


def rate_sensitivity(grid: LrGrid) -> tuple[Sensitivity, ...]:
    """Return, for every task, how strongly its results depend on the learning rate."""
    return tuple(_sensitivity(grid, task) for task in grid.tasks)


def _sensitivity(grid: LrGrid, task: Task) -> Sensitivity:
    hand = grid.arm(task)
    shared = _shared(hand)
    rates = _rows(grid, hand, shared)
    volumes = np.array([row.hypervolume for row in rates])
    best_lr, near_best = None, None
    if len(rates) and np.nanmax(volumes, initial=0.0) > 0:
        best_lr = best_rate(list(hand), np.nan_to_num(volumes).tolist())
        best = list(hand).index(best_lr)
        far = np.flatnonzero(~(volumes >= (1 - WITHIN) * volumes[best]))
        low, high = max(far[far < best], default=-1) + 1, min(far[far > best], default=len(rates)) - 1
        near_best = rates[low].lr, rates[high].lr
    finite = volumes[np.isfinite(volumes)]
    spread = float(np.ptp(finite)) if len(finite) else math.nan
    arms = {variant: grid.arm(task, variant) for variant in grid.variants(task)}
    starts = {variant: _rows(grid, arm, _shared(hand, arm)) for variant, arm in arms.items()}
    whole = {seed for units in hand.values() for seed in _whole(units)}
    return Sensitivity(task, rates, best_lr, near_best, spread, starts, tuple(sorted(whole - shared)))


def _whole(units: Mapping[int, SeedFront]) -> set[int]:
    return {seed for seed, unit in units.items() if not unit.missing}


def _shared(*arms: Arm) -> set[int]:
    """Return the seeds with a complete front at every rate. Rates without any complete front are ignored."""
    found = [whole for arm in arms for units in arm.values() if (whole := _whole(units))]
    return set.intersection(*found) if found else set()


def _rows(grid: LrGrid, arm: Arm, shared: set[int]) -> tuple[RateRow, ...]:
    return tuple(_row(lr, units, shared, grid) for lr, units in arm.items())


def _row(lr: float, units: Mapping[int, SeedFront], seeds: set[int], grid: LrGrid) -> RateRow:
    whole = [unit for seed, unit in units.items() if seed in seeds and not unit.missing]
    volumes = [unit.hypervolume() for unit in whole]
    further = {box: [unit.hypervolume(box) for unit in whole] for box in grid.boxes}
    # If no seed is compared, the metrics of all runs are averaged.
    rows = [run.row for unit in whole or units.values() for run in unit.runs.values()]
    finished = [row for row in rows if row["status"] == "finished"]
    metrics = {}
    for name in grid.columns.outcomes:
        if values := [value for row in finished if (value := finite_cell(row, name)) is not None]:
            metrics[name] = math.fsum(values) / len(values)
    return RateRow(
        lr,
        hypervolume=math.fsum(volumes) / len(volumes) if volumes else math.nan,
        deviation=stdev(volumes) if len(volumes) > 1 else math.nan,
        seeds=len(volumes),
        diverged=sum(run.diverged for unit in units.values() for run in unit.runs.values()),
        metrics=metrics,
        further={box: float(np.mean(values)) if values else math.nan for box, values in further.items()},
    )
