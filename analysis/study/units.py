"""Determine which runs of a study are compared, and which of them count as one unit.

A rule is compared with the fixed rates of the same method, configuration and task, so these arms differ in the rate
rule alone. Each seed is one unit. Runs of a rule from several starts on one seed belong to one unit, and equal runs
count once. A seed on which all results of one side repeat those of an earlier seed is a copy, and is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.study.endpoints import RunFacts
from analysis.study.study_runs import Configuration, MethodTask
from analysis.tables.columns import Columns, short
from analysis.tables.tasks import SEED_COLUMNS
from analysis.words import cell, number

Side = Mapping[int, Sequence[RunFacts]]
"""The distinct runs on each seed: one run at a fixed rate, or the runs of a rule from all of its starts."""
ByRate = Mapping[float, Mapping[int, RunFacts]]
"""The runs with each fixed rate, or from each start, on each seed."""


@dataclass(frozen=True, slots=True)
class Arms:
    """All runs of one method with one configuration on one task.

    Attributes:
        method: the method with the option values that vary, such as ``gdiff c=0.9``.
        hand: the runs with fixed rates.
        auto: the runs of each variant of an automatic rate.
    """

    method_task: MethodTask
    method: str
    hand: ByRate
    auto: Mapping[str, ByRate]


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a comparison, with the runs of both sides.

    Attributes:
        seeds: the seeds that are units.
        hand: the side of each fixed rate, in ascending order.
        starts: the initial rates of the rule.
        left_out: the seeds on which a run is missing or has no result.
        copies: the seeds that repeat an earlier seed.
    """

    seeds: tuple[int, ...]
    hand: Mapping[float, Side]
    auto: Side
    starts: tuple[float, ...]
    left_out: tuple[int, ...]
    copies: tuple[int, ...]

    @property
    def auto_runs(self) -> list[RunFacts]:
        return [run for seed in self.seeds for run in self.auto[seed]]


def arms_of(facts: Sequence[RunFacts], columns: Sequence[str]) -> tuple[Arms, ...]:
    """Group the runs by method, task and configuration. ``columns`` has the settings of a configuration."""
    grouped: dict[tuple[MethodTask, Configuration], dict[str, dict[float, dict[int, RunFacts]]]] = {}
    for item in facts:
        run = item.run
        if run.lr is not None and run.seed is not None:
            by_arm = grouped.setdefault((run.method_task, run.configuration), {})
            by_arm.setdefault(run.variant, {}).setdefault(run.lr, {})[run.seed] = item
    arms = []
    for (method_task, configuration), by_arm in grouped.items():
        others = [values for other, values in grouped if other.method == method_task.method]
        varies = [len(set(values)) > 1 for values in zip(*others, strict=True)]
        settings = [item for item, kept in zip(zip(columns, configuration, strict=True), varies, strict=True) if kept]
        words = [f"{short(name)}={number(value)}" for name, value in settings if value is not None]
        auto = {variant: by_rate for variant, by_rate in by_arm.items() if variant}
        arms.append(Arms(method_task, " ".join((method_task.method, *words)), by_arm.get("", {}), auto))
    return tuple(arms)


def units_of(arms: Arms, variant: str) -> Units | None:
    """Return the units of a comparison; None if there is no seed on which all runs have a result."""
    hand, auto = dict(sorted(arms.hand.items())), dict(sorted(arms.auto[variant].items()))
    sides = [list(hand.values()), list(auto.values())]
    runs = [by_seed for side in sides for by_seed in side]
    all_seeds = sorted({seed for by_seed in runs for seed in by_seed})
    complete = [s for s in all_seeds if all(s in by_seed and by_seed[s].is_known for by_seed in runs)]
    copies = _copies(complete, sides)
    seeds = tuple(seed for seed in complete if seed not in copies)
    if not seeds:
        return None
    return Units(
        seeds=seeds,
        hand={rate: {seed: [by_seed[seed]] for seed in seeds} for rate, by_seed in hand.items()},
        auto={seed: _distinct([by_seed[seed] for by_seed in auto.values()]) for seed in seeds},
        starts=tuple(auto),
        left_out=tuple(seed for seed in all_seeds if seed not in complete),
        copies=copies,
    )


def setting_differences(
    arms: Arms, variant: str, all_arms: Sequence[Arms], columns: Columns
) -> tuple[tuple[str, str, str], ...]:
    """Return how the settings of a rule differ from those of the most similar fixed rates of the same method.

    The result has a tuple (setting, value of the rule, value of the fixed rates) for each difference; () if no fixed
    rate of this method was run with other settings.
    """
    row = _first_row(arms.auto[variant])
    found = []
    for other in all_arms:
        if other.hand and other.method_task.method == arms.method_task.method:
            fixed = _first_row(other.hand)
            names = [str(name) for name in row.index if columns[str(name)].role in ("data", "training")]
            values = [(short(name), number(cell(row[name])), number(cell(fixed.get(name)))) for name in names
                      if name not in ("lr", *SEED_COLUMNS)]  # fmt: skip
            found.append(tuple(item for item in values if item[1] != item[2]))
    return min(found, key=len, default=())


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN without values."""
    all_values = list(values)
    return math.fsum(all_values) / len(all_values) if all_values else math.nan


def value_of(runs: Sequence[RunFacts]) -> float:
    """Return the mean quality of the runs on a seed, in which a collapsed run counts as 0."""
    return mean(0.0 if run.collapsed else run.quality for run in runs)


def quality_differences(units: Units, rate: float) -> list[float]:
    """Return the difference in quality (automatic minus fixed) on each seed where neither side collapsed.

    A side collapsed if all of its runs collapsed. Its quality is the mean over the other runs.
    """
    differences = []
    for seed in units.seeds:
        kept = [[run.quality for run in side[seed] if not run.collapsed] for side in (units.auto, units.hand[rate])]
        if all(kept):
            differences.append(mean(kept[0]) - mean(kept[1]))
    return differences


def collapses(units: Units, side: Side) -> list[bool]:
    """Return whether at least half of the runs collapsed, for each seed."""
    return [2 * sum(bool(run.collapsed) for run in side[seed]) >= len(side[seed]) for seed in units.seeds]


def successes(units: Units, side: Side) -> list[bool] | None:
    """Return whether more than half of the runs succeeded, for each seed; None if a run is unknown."""
    if any(run.success is None for seed in units.seeds for run in side[seed]):
        return None
    return [2 * sum(bool(run.success) for run in side[seed]) > len(side[seed]) for seed in units.seeds]


def _first_row(by_rate: ByRate) -> pd.Series:
    return next(item.run.row for by_seed in by_rate.values() for item in by_seed.values())


def _copies(seeds: Sequence[int], sides: Sequence[Sequence[Mapping[int, RunFacts]]]) -> tuple[int, ...]:
    copies: list[int] = []
    for side in sides:
        seen: set[object] = set()
        for seed in seeds:
            results = tuple(by_seed[seed].result for by_seed in side)
            if any(results) and results in seen:
                copies.append(seed)
            seen.add(results)
    return tuple(sorted(set(copies)))


def _distinct(runs: Sequence[RunFacts]) -> list[RunFacts]:
    return list({run.result or index: run for index, run in enumerate(runs)}.values())
