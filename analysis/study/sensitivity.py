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
from analysis.study.study_runs import MethodTask
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

    method_task: MethodTask
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
    """Return, for every method on every task, how strongly its results depend on the learning rate."""
    return tuple(_sensitivity(grid, method_task) for method_task in grid.method_tasks)


def _sensitivity(grid: LrGrid, method_task: MethodTask) -> Sensitivity:
    hand = grid.arm(method_task)
    compared = _compared_seeds(hand)
    rates = _rows(grid, hand, compared)
    volumes = np.array([row.hypervolume for row in rates])
    best_lr, near_best = None, None
    if len(rates) and np.nanmax(volumes, initial=0.0) > 0:
        best_lr = best_rate(list(hand), np.nan_to_num(volumes).tolist())
        best = list(hand).index(best_lr)
        worse = np.flatnonzero(~(volumes >= (1 - WITHIN) * volumes[best]))
        low, high = max(worse[worse < best], default=-1) + 1, min(worse[worse > best], default=len(rates)) - 1
        near_best = rates[low].lr, rates[high].lr
    finite = volumes[np.isfinite(volumes)]
    spread = float(np.ptp(finite)) if len(finite) else math.nan
    arms = {variant: grid.arm(method_task, variant) for variant in grid.variants(method_task)}
    starts = {variant: _rows(grid, arm, _compared_seeds(hand, arm)) for variant, arm in arms.items()}
    complete = {seed for by_seed in hand.values() for seed in _complete_seeds(by_seed)}
    return Sensitivity(method_task, rates, best_lr, near_best, spread, starts, tuple(sorted(complete - compared)))


def _complete_seeds(fronts_by_seed: Mapping[int, SeedFront]) -> set[int]:
    return {seed for seed, front in fronts_by_seed.items() if not front.missing}


def _compared_seeds(*arms: Arm) -> set[int]:
    """Return the seeds with a complete front at every rate. Rates without any complete front are ignored."""
    seeds_by_rate = [
        seeds for arm in arms for fronts_by_seed in arm.values() if (seeds := _complete_seeds(fronts_by_seed))
    ]
    return set.intersection(*seeds_by_rate) if seeds_by_rate else set()


def _rows(grid: LrGrid, arm: Arm, compared: set[int]) -> tuple[RateRow, ...]:
    return tuple(_row(lr, fronts_by_seed, compared, grid) for lr, fronts_by_seed in arm.items())


def _row(lr: float, fronts_by_seed: Mapping[int, SeedFront], seeds: set[int], grid: LrGrid) -> RateRow:
    complete = [front for seed, front in fronts_by_seed.items() if seed in seeds and not front.missing]
    volumes = [front.hypervolume() for front in complete]
    further = {box: [front.hypervolume(box) for front in complete] for box in grid.boxes}
    # If no seed is compared, the metrics of all runs are averaged.
    rows = [run.row for front in complete or fronts_by_seed.values() for run in front.runs.values()]
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
        diverged=sum(run.diverged for front in fronts_by_seed.values() for run in front.runs.values()),
        metrics=metrics,
        further={box: float(np.mean(values)) if values else math.nan for box, values in further.items()},
    )
