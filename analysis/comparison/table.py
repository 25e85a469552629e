"""The tables of a comparison, and the choice of the configuration that represents a method.

Each unlearning task (a model and a data set with their settings) has its own table. A method whose options were given
as lists of values has a row for each value. The trials of a configuration differ only in their seeds. A trial succeeds
if it meets the thresholds (:mod:`analysis.comparison.success`). Configurations are ranked by the lower end of the exact
95% confidence interval of the success rate (Clopper & Pearson 1934). For example, a configuration with 3 successes in 3
trials ranks above a configuration with 1 success in 1 trial. Ties are broken by the hypervolume of the mean primary
metrics, then by the hypervolume of the mean objectives. A trial that did not finish counts as unsuccessful, and its
metrics count as the worst possible values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import stdev

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from analysis.comparison.arms import ComparedTrial, RowKey, Settings
from analysis.comparison.success import Criterion
from analysis.frontier.frontier import hypervolume
from analysis.tables.note import Note
from analysis.tables.tasks import Task
from analysis.tables.trade_off import Floats
from analysis.tables.trial_table import finite_cell
from analysis.words import number
from search_spaces.constraint import Constraint, all_met


@dataclass(frozen=True, slots=True)
class Value:
    """The mean and the standard deviation of a metric over seeds.

    Attributes:
        deviation: the standard deviation; None for a single seed.
        met: whether the metric meets its threshold; None if unknown, or if it has no threshold.
        seeds: the number of seeds on which the metric was measured.
    """

    mean: float
    deviation: float | None
    met: bool | None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """The results of one configuration.

    Attributes:
        label: the configuration as text, such as ``lr 1e-4, epochs 5``.
        seeds: the number of finished trials.
        lost: the number of unfinished trials.
        succeeded: the number of finished trials that meet all thresholds.
        missed: the number of finished trials that miss a threshold.
        not_judged: the number of finished trials for which success is unknown, because a score is missing or
            impossible.
        seed_numbers: the seeds of all trials; () if the seed of any trial is unknown.
        configuration: the settings of the configuration, except the learning rate.
    """

    label: str
    seeds: int
    lost: int
    values: Mapping[str, Value]
    succeeded: int = 0
    missed: int = 0
    not_judged: int = 0
    seed_numbers: tuple[int, ...] = ()
    configuration: Settings = ()

    @property
    def success(self) -> bool | None:
        """True if every trial succeeded; False if every finished trial missed a threshold; None otherwise."""
        if self.succeeded:
            return True if self.succeeded == self.seeds + self.lost else None
        return False if self.missed and not self.not_judged else None

    @property
    def unit(self) -> str:
        """The noun for a trial: ``seed``, or ``run`` if the seeds are unknown."""
        return "seed" if self.seed_numbers else "run"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """The results of a row's trials, once without and once with AutoLR. A result is None if there are no such trials.

    Both results have the values of the method's options that are in ``key``.
    """

    key: RowKey
    without: Entry | None
    with_auto: Entry | None

    @property
    def arms(self) -> dict[str, Entry]:
        """The existing results, keyed by names such as ``gdiff`` and ``gdiff with AutoLR``."""
        label = self.key.label
        sides = ((label, self.without), (f"{label} with AutoLR", self.with_auto))
        return {name: entry for name, entry in sides if entry is not None}


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """The table of one task.

    Attributes:
        baseline: the metrics of the target before unlearning, or their means over several targets.
        thresholds: the thresholds that a successful trial meets.
        task_notes: notes on the columns that distinguish the tasks; the same in all tables of a comparison.
    """

    task: Task
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]
    thresholds: tuple[Constraint, ...] = ()
    task_notes: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def every_row(self) -> tuple[MethodRow, ...]:
        """The rows of the table, including the row of the target."""
        if self.baseline is None:
            return self.rows
        return (MethodRow(RowKey("target"), without=self.baseline, with_auto=None), *self.rows)

    def sides(self, row: MethodRow) -> tuple[Entry | None, ...]:
        """Return the result without AutoLR and then the result with AutoLR of a row.

        The result with AutoLR is left out for the row of the target, and if no method was run with AutoLR.
        """
        has_auto_lr = any(other.with_auto is not None for other in self.rows) and row in self.rows
        return (row.without, row.with_auto) if has_auto_lr else (row.without,)


def best_entry(trials: Sequence[ComparedTrial], criterion: Criterion, metrics: Sequence[str]) -> Entry | None:
    """Return the results of the configuration with the highest rank; None if there are no trials.

    Args:
        trials: the trials of one side of a row.
    """
    configurations: dict[tuple[object, ...], list[ComparedTrial]] = {}
    for trial in trials:
        configurations.setdefault((trial.rate, trial.configuration), []).append(trial)
    best_trials = max(configurations.values(), key=partial(_rank, criterion=criterion), default=None)
    if best_trials is None:
        return None
    finished_rows = [trial.row for trial in best_trials if trial.is_finished]
    verdicts = [criterion.succeeds(row) for row in finished_rows]
    seeds = [trial.seed for trial in best_trials if trial.seed is not None]
    values = {name: _value(finished_rows, name, criterion) for name in metrics}
    first = best_trials[0]
    settings = (f"{name} {number(value)}" for name, value in first.configuration)
    return Entry(
        label=", ".join(filter(None, (first.rate, *settings))),
        seeds=len(finished_rows),
        lost=len(best_trials) - len(finished_rows),
        values={name: value for name, value in values.items() if value is not None},
        succeeded=verdicts.count(True),
        missed=verdicts.count(False),
        not_judged=verdicts.count(None),
        seed_numbers=tuple(sorted(seeds)) if len(seeds) == len(best_trials) else (),
        configuration=first.configuration,
    )


def _rank(trials: Sequence[ComparedTrial], criterion: Criterion) -> tuple[float, float, float, int]:
    finished = [trial for trial in trials if trial.is_finished]
    successes = sum(criterion.succeeds(trial.row) is True for trial in finished)
    low = binomtest(successes, len(trials)).proportion_ci(0.95, method="exact").low
    primary_volume = _mean_volume([trial.primary_costs for trial in trials])
    return low, primary_volume, _mean_volume([trial.costs for trial in trials]), len(finished)


def _mean_volume(costs: Sequence[Floats]) -> float:
    return hypervolume([np.mean(costs, axis=0)]) if len(costs[0]) else 0.0


def _value(finished_rows: Sequence[pd.Series], name: str, criterion: Criterion) -> Value | None:
    scored_rows = [(row, score) for row in finished_rows if (score := finite_cell(row, name)) is not None]
    if not scored_rows:
        return None
    scores = [score for _, score in scored_rows]
    mean = math.fsum(scores) / len(scores)
    deviation = stdev(scores) if len(scores) > 1 else None
    baselines = [criterion.baseline_of(row).get(name) for row, _ in scored_rows]
    are_possible = all(criterion.score(row, name) is not None for row, _ in scored_rows)
    met = _met(criterion.thresholds.get(name), mean, scores, baselines) if are_possible else None
    return Value(mean, deviation, met, seeds=len(scores))


def _met(
    threshold: Constraint | None, mean: float, scores: Sequence[float], baselines: Sequence[float | None]
) -> bool | None:
    """Return whether every score of a configuration, or their mean, meets a threshold; None if unknown.

    Args:
        scores: the score on each seed.
        baselines: the score of each seed's target.
    """
    if threshold is None:
        return None
    every_seed_met = all_met(threshold.met(score, target) for score, target in zip(scores, baselines, strict=True))
    # If the targets differ, each score is compared with the target of its own seed.
    targets_differ = len(set(baselines)) > 1
    if every_seed_met or (threshold.relative and targets_differ):
        return every_seed_met
    return threshold.met(mean, baselines[0])
