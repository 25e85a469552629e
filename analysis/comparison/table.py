"""The tables of a comparison, and the choice of the configuration that represents a method.

Each unlearning task (a model and a data set with their settings) has its own table. The trials of a configuration
differ only in their seeds. A trial succeeds if it meets the paper's thresholds. Configurations are ranked by the lower
end of the exact 95% confidence interval of the success rate (Clopper & Pearson 1934). For example, a configuration with
3 successes in 3 trials ranks above a configuration with 1 success in 1 trial. Ties are broken by the hypervolume of the
mean objectives. A trial that did not finish counts as unsuccessful, and its objectives count as the worst possible
values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import stdev

import numpy as np
import pandas as pd

from analysis.frontier.frontier import hypervolume
from analysis.study.paired import exact_share
from analysis.study.study_runs import StudyRun, StudyRuns
from analysis.tables.columns import Columns
from analysis.tables.note import Note
from analysis.tables.out_of_bounds import is_possible
from analysis.tables.sweep_file import SweepFile
from analysis.tables.tasks import Task
from analysis.tables.trial_table import finite_cell
from analysis.words import format_policy, number
from search_spaces.constraint import Constraint, all_met


@dataclass(frozen=True, slots=True)
class Value:
    """The mean and the standard deviation of a metric over seeds.

    Attributes:
        deviation: the standard deviation; None for a single seed.
        met: whether the metric meets its threshold from the paper; None if unknown, or if it has no threshold.
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
        label: the configuration as text, such as ``lr 1e-4, c 0.9``.
        seeds: the number of finished trials.
        lost: the number of unfinished trials.
        succeeded: the number of finished trials that meet all thresholds from the paper.
        missed: the number of finished trials that miss a threshold from the paper.
        not_judged: the number of finished trials for which success is unknown, because a score is missing or
            impossible.
        seed_numbers: the seeds of all trials; () if the seed of any trial is unknown.
    """

    label: str
    seeds: int
    lost: int
    values: Mapping[str, Value]
    succeeded: int = 0
    missed: int = 0
    not_judged: int = 0
    seed_numbers: tuple[int, ...] = ()

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
    """The results of a method, once without and once with AutoLR. A result is None if the method has no such trials."""

    method: str
    without: Entry | None
    with_auto: Entry | None

    @property
    def arms(self) -> dict[str, Entry]:
        """The existing results, keyed by names such as ``gdiff`` and ``gdiff with AutoLR``."""
        sides = ((self.method, self.without), (f"{self.method} with AutoLR", self.with_auto))
        return {name: entry for name, entry in sides if entry is not None}


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """The table of one task.

    Attributes:
        baseline: the metrics of the target before unlearning, or their means over several targets.
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
        return (MethodRow("target", without=self.baseline, with_auto=None), *self.rows)

    def sides(self, row: MethodRow) -> tuple[Entry | None, ...]:
        """Return the result without AutoLR and then the result with AutoLR of a row.

        The result with AutoLR is left out for the row of the target, and if no method was run with AutoLR.
        """
        has_auto_lr = any(other.with_auto is not None for other in self.rows) and row in self.rows
        return (row.without, row.with_auto) if has_auto_lr else (row.without,)


def best_entry(runs: Sequence[StudyRun], study: StudyRuns, metrics: Sequence[str], sweep: SweepFile) -> Entry | None:
    """Return the results of the configuration with the highest rank among ``runs``; None if there are no runs."""
    configurations: dict[tuple[object, ...], list[StudyRun]] = {}
    for run in runs:
        configurations.setdefault((run.variant, run.lr, run.configuration), []).append(run)
    rank = partial(_rank, columns=study.columns, sweep=sweep)
    best_runs = max(configurations.values(), key=rank, default=None)
    if best_runs is None:
        return None
    finished_rows = [run.row for run in best_runs if run.row["status"] == "finished"]
    verdicts = [succeeds(row, study.columns, sweep) for row in finished_rows]
    seeds = [run.seed for run in best_runs if run.seed is not None]
    values = {name: _value(finished_rows, name, study.columns, sweep) for name in metrics}
    return Entry(
        label=_label(best_runs[0], study.configuration_columns),
        seeds=len(finished_rows),
        lost=len(best_runs) - len(finished_rows),
        values={name: value for name, value in values.items() if value is not None},
        succeeded=verdicts.count(True),
        missed=verdicts.count(False),
        not_judged=verdicts.count(None),
        seed_numbers=tuple(sorted(seeds)) if len(seeds) == len(best_runs) else (),
    )


def _rank(runs: Sequence[StudyRun], columns: Columns, sweep: SweepFile) -> tuple[float, float, int]:
    finished_rows = [run.row for run in runs if run.row["status"] == "finished"]
    successes = sum(succeeds(row, columns, sweep) is True for row in finished_rows)
    size = next((len(run.costs) for run in runs if run.costs is not None), 0)
    costs = [np.ones(size) if run.costs is None else run.costs for run in runs]
    volume = hypervolume([np.mean(costs, axis=0)]) if size else 0.0
    return exact_share(successes, len(runs)).low, volume, len(finished_rows)


def succeeds(row: pd.Series, columns: Columns, sweep: SweepFile) -> bool | None:
    """Return whether a finished trial meets the paper's thresholds; None if a score is missing or out of bounds."""

    def value(name: str) -> float | None:
        score = finite_cell(row, name)
        return score if score is not None and is_possible(score, name, columns) else None

    return columns.success(value, sweep.baseline_of(row))


def _label(run: StudyRun, columns: Sequence[str]) -> str:
    parts = []
    if run.variant:
        parts.append(format_policy(run.variant, run.lr))
    elif run.lr is not None:
        parts.append(f"lr {number(run.lr)}")
    parts += [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in zip(columns, run.configuration, strict=True)
        if value is not None
    ]
    return ", ".join(parts)


def _value(finished_rows: Sequence[pd.Series], name: str, columns: Columns, sweep: SweepFile) -> Value | None:
    scored_rows = [(row, score) for row in finished_rows if (score := finite_cell(row, name)) is not None]
    if not scored_rows:
        return None
    scores = [score for _, score in scored_rows]
    mean = math.fsum(scores) / len(scores)
    deviation = stdev(scores) if len(scores) > 1 else None
    baselines = [sweep.baseline_of(row).get(name) for row, _ in scored_rows]
    are_possible = all(is_possible(score, name, columns) for score in scores)
    met = _met(columns[name].threshold, mean, scores, baselines) if are_possible else None
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
