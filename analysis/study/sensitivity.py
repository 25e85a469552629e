"""How much a method's result depends on the learning rate, and where AutoLR comes out among the rates.

The scalar a learning rate is judged by: the hypervolume of its front over c, mean over the seeds on which all the rates
compared have a whole front, so that no rate looks better for the seeds that it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import stdev

import numpy as np

from analysis.study.hand_tuning import best_rate
from analysis.study.lr_grid import Arm, LrGrid, Unit
from analysis.study.study_runs import Task
from analysis.study.verdict import WITHIN


@dataclass(frozen=True, slots=True)
class RateRow:
    """One learning rate, or one start of AutoLR.

    Attributes:
        hypervolume: mean over the seeds compared; NaN where no seed has a whole front.
        deviation: standard deviation over them; NaN with fewer than 2.
        seeds: how many they are.
        diverged: trials that diverged, over all seeds.
        metrics: means over their finished trials, by name; only those that were measured.
        further: hypervolumes in other reference boxes, mean over seeds, by name; NaN if one was not measured.
    """

    lr: float
    hypervolume: float
    deviation: float
    seeds: int
    diverged: int
    metrics: dict[str, float]
    further: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoPlace:
    """AutoLR among the fixed rates.

    Attributes:
        starts: a row for each learning rate it started from.
        mean, worst, best: hypervolume over the starts.
        beats: how many of the fixed rates have a lower hypervolume than ``mean`` on the seeds of both.
        share_of_best: ``mean`` over that of the best fixed rate, on these seeds.
    """

    variant: str
    starts: tuple[RateRow, ...]
    mean: float
    worst: float
    best: float
    beats: int
    share_of_best: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One method on one model and data set.

    Attributes:
        rates: a row for each fixed learning rate, rising.
        best_lr: the rate with the highest mean hypervolume (:func:`analysis.study.hand_tuning.best_rate`); None without
            a whole front, and where every front attains nothing.
        near_best: the neighbouring rates around it, itself included, whose hypervolume is at least 95% of its own:
            lowest and highest. The true range may reach up to the next rates tried.
        spread: per metric the largest mean over the rates minus the smallest; ``hypervolume`` among them.
        auto: a place for each AutoLR variant.
        left_out: the seeds on which some rate has a whole front and another none.
        paired: whether the rates are compared on the same seeds; not where they have none in common.
    """

    task: Task
    rates: tuple[RateRow, ...]
    best_lr: float | None
    near_best: tuple[float, float] | None
    spread: dict[str, float]
    auto: tuple[AutoPlace, ...]
    left_out: tuple[int, ...] = ()
    paired: bool = True

    @property
    def decades(self) -> float | None:
        """The width of ``near_best`` in powers of ten."""
        return None if self.near_best is None else math.log10(self.near_best[1] / self.near_best[0])

    @property
    def at_edge(self) -> bool:
        """Whether the best rate is the lowest or the highest of several."""
        return len(self.rates) > 1 and self.best_lr in (self.rates[0].lr, self.rates[-1].lr)

    @property
    def diverged(self) -> int:
        """Trials that diverged, over all rates."""
        return sum(row.diverged for row in self.rates)

    @property
    def has_front(self) -> bool:
        """Whether some rate has a whole front."""
        return any(row.seeds for row in self.rates)


def rate_sensitivity(grid: LrGrid) -> tuple[Sensitivity, ...]:
    """The sensitivity of every method on every model and data set."""
    return tuple(_sensitivity(grid, task) for task in grid.tasks)


def _sensitivity(grid: LrGrid, task: Task) -> Sensitivity:
    hand = grid.arm(task)
    shared = _shared(hand)
    rates = _rows(grid, hand, shared)
    volumes = np.array([row.hypervolume for row in rates])
    best_lr, near_best, top = None, None, math.nan
    if len(rates) and np.nanmax(volumes, initial=0.0) > 0:
        best_lr = best_rate(list(hand), np.nan_to_num(volumes).tolist())
        best = list(hand).index(best_lr)
        top = float(volumes[best])
        near = volumes >= (1 - WITHIN) * top
        low = high = best
        while low > 0 and near[low - 1]:
            low -= 1
        while high < len(rates) - 1 and near[high + 1]:
            high += 1
        near_best = rates[low].lr, rates[high].lr
    spread = {"hypervolume": _range(volumes)}
    for name in grid.columns.outcomes:
        values = [row.metrics[name] for row in rates if name in row.metrics]
        if values:
            spread[name] = _range(np.array(values))
    places = [_place(grid, hand, variant, grid.arm(task, variant)) for variant in grid.variants(task)]
    whole = {seed for units in hand.values() for seed in _whole(units)}
    left_out = tuple(sorted(whole - shared)) if shared else ()
    return Sensitivity(task, rates, best_lr, near_best, spread, tuple(places), left_out, bool(shared or not whole))


def _place(grid: LrGrid, hand: Arm, variant: str, auto: Arm) -> AutoPlace:
    shared = _shared(hand, auto)
    starts = _rows(grid, auto, shared)
    rates = np.array([row.hypervolume for row in _rows(grid, hand, shared)])
    own = np.array([row.hypervolume for row in starts])
    own = own[np.isfinite(own)]
    worst, mean, best = (own.min(), own.mean(), own.max()) if len(own) else (math.nan,) * 3
    top = np.nanmax(rates, initial=0.0)
    beats, share = int(np.count_nonzero(rates < mean)), mean / top if top > 0 else math.nan
    return AutoPlace(variant, starts, float(mean), float(worst), float(best), beats, float(share))


def _whole(units: Mapping[int, Unit]) -> set[int]:
    return {seed for seed, unit in units.items() if not unit.missing}


def _shared(*arms: Arm) -> set[int]:
    """The seeds on which every rate has a whole front, of those that have one at all."""
    found = [whole for arm in arms for units in arm.values() if (whole := _whole(units))]
    return set.intersection(*found) if found else set()


def _rows(grid: LrGrid, arm: Arm, shared: set[int]) -> tuple[RateRow, ...]:
    """A row for each rate on the ``shared`` seeds; on its own where there are none."""
    return tuple(_row(lr, units, shared or _whole(units), grid) for lr, units in arm.items())


def _row(lr: float, units: Mapping[int, Unit], seeds: set[int], grid: LrGrid) -> RateRow:
    whole = [unit for seed, unit in units.items() if seed in seeds and not unit.missing]
    volumes = [unit.hypervolume for unit in whole]
    further = {box: [unit.further_hypervolume(box) for unit in whole] for box in grid.boxes}
    # Without a whole front there is nothing to compare, and what was measured is described.
    rows = [run.row for unit in whole or units.values() for run in unit.runs.values()]
    metrics = {}
    for name in grid.columns.outcomes:
        values = [float(row[name]) for row in rows if row["status"] == "finished" and name in row.index]
        values = [value for value in values if math.isfinite(value)]
        if values:
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


def _range(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max() - finite.min()) if len(finite) else math.nan
