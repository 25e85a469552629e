"""The tables of a comparison, and the function that selects the configuration that represents a method.

Each unlearning problem (a model and a data set with their settings) has its own table. The table has the metrics of
each method without AutoLR and with AutoLR. A seed succeeds if it meets the paper's thresholds. Configurations are
ranked by the lower end of the exact 95% confidence interval of the success rate (Clopper & Pearson 1934), so 3 of 3
seeds rank above 1 of 1. Ties are broken by the hypervolume of the mean objectives. If the trial on a seed diverged,
failed or was stopped, the seed does not succeed, and its objectives count as the worst possible values.
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
from analysis.tables.problems import Problem
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import finite_cell
from analysis.words import format_policy, number
from search_spaces.constraint import Constraint, all_met


@dataclass(frozen=True, slots=True)
class Value:
    """The mean and standard deviation of a metric over the seeds on which it was measured.

    ``seeds`` counts these seeds; for a single seed, ``deviation`` is None. ``met`` tells whether the metric meets its
    threshold; None if unknown.
    """

    mean: float
    deviation: float | None
    met: bool | None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """The results of one configuration.

    Attributes:
        label: the configuration as text, such as ``lr 1e-4, c 0.9`` (AutoLR: variant and initial rate); may be empty.
        seeds: the number of finished trials, over which the means are computed.
        lost: the number of trials that did not finish.
        values: the mean and deviation of each measured metric.
        succeeded: the number of finished seeds that meet all thresholds.
        missed: the number of finished seeds that miss a threshold.
        not_judged: the number of finished seeds that miss no threshold, but for which some threshold cannot be judged.
        seed_numbers: the seeds, including lost seeds; () if an external table does not give all seeds.
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
        """True if every seed meets all thresholds; False if every finished seed misses a threshold; None otherwise."""
        if self.succeeded:
            return True if self.succeeded == self.seeds + self.lost else None
        return False if self.missed and not self.not_judged else None

    @property
    def unit(self) -> str:
        """The noun for a trial: ``seed``, or ``run`` if an external table does not give the seeds."""
        return "seed" if self.seed_numbers else "run"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """The results of a method without AutoLR and with AutoLR.

    ``without`` is None if the method has no runs without AutoLR, and ``with_auto`` if it has no runs with AutoLR.
    """

    method: str
    without: Entry | None
    with_auto: Entry | None

    @property
    def arms(self) -> dict[str, Entry]:
        """The results that are not None, keyed by names such as ``gdiff`` and ``gdiff with AutoLR``."""
        sides = ((self.method, self.without), (f"{self.method} with AutoLR", self.with_auto))
        return {name: entry for name, entry in sides if entry is not None}


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """The table of one problem, with a row for the target (before unlearning) and a row for every method.

    If every seed has its own target, the target's row has the mean over the targets.

    Attributes:
        thresholds: the thresholds that a seed must meet to succeed.
        problem_notes: the notes on the columns in which the problems differ; all tables have the same notes.
        notes: the notes below this table.
    """

    problem: Problem
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]
    thresholds: tuple[Constraint, ...] = ()
    problem_notes: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def every_row(self) -> tuple[MethodRow, ...]:
        """The target's row, if it exists, followed by the rows of the methods."""
        return (*([MethodRow("target", self.baseline, None)] if self.baseline else []), *self.rows)

    def sides(self, row: MethodRow) -> tuple[Entry | None, ...]:
        """Return the results in a row: the results without AutoLR, then the results with AutoLR.

        For the target's row, or if no method was run with AutoLR, only the results without AutoLR are returned.
        """
        both = any(other.with_auto is not None for other in self.rows) and row in self.rows
        return (row.without, row.with_auto) if both else (row.without,)


def chosen(runs: Sequence[StudyRun], study: StudyRuns, metrics: Sequence[str], targets: SweepFile) -> Entry | None:
    """Return the results of the highest-ranked configuration; None if there are no runs. Ties go to the first one."""
    configurations: dict[tuple[object, ...], list[StudyRun]] = {}
    for run in runs:
        configurations.setdefault((run.variant, run.lr, run.configuration), []).append(run)
    rank = partial(_rank, columns=study.columns, targets=targets)
    best = max(configurations.values(), key=rank, default=None)
    if best is None:
        return None
    done = [run.row for run in best if run.row["status"] == "finished"]
    verdicts = [succeeds(row, study.columns, targets) for row in done]
    seeds = [run.seed for run in best if run.seed is not None]
    return Entry(
        _label(best[0], study.configuration_columns),
        len(done),
        len(best) - len(done),
        {name: value for name in metrics if (value := _value(done, name, study.columns, targets)) is not None},
        succeeded=verdicts.count(True),
        missed=verdicts.count(False),
        not_judged=verdicts.count(None),
        seed_numbers=tuple(sorted(seeds)) if len(seeds) == len(best) else (),
    )


def _rank(runs: Sequence[StudyRun], columns: Columns, targets: SweepFile) -> tuple[float, float, int]:
    """Return the sort key: lower end of the success interval, hypervolume of mean costs, number of finished seeds."""
    done = [run.row for run in runs if run.row["status"] == "finished"]
    met = sum(succeeds(row, columns, targets) is True for row in done)
    size = next((len(run.costs) for run in runs if run.costs is not None), 0)
    costs = [np.ones(size) if run.costs is None else run.costs for run in runs]
    box = hypervolume([np.mean(costs, axis=0)]) if size else 0.0
    return exact_share(met, len(runs)).low, box, len(done)


def succeeds(row: pd.Series, columns: Columns, targets: SweepFile) -> bool | None:
    """Return True if a finished trial meets all thresholds, False if it misses one, and None otherwise.

    A threshold cannot be judged if the score is missing or impossible, such as a percentage instead of a share.
    """

    def value(name: str) -> float | None:
        found = finite_cell(row, name)
        return found if found is not None and is_possible(found, name, columns) else None

    return columns.success(value, targets.baseline_of(row))


def _label(run: StudyRun, columns: Sequence[str]) -> str:
    rate = [] if run.lr is None else [f"lr {number(run.lr)}"]
    options = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in zip(columns, run.configuration, strict=True)
        if value is not None
    ]
    return ", ".join([*([format_policy(run.variant, run.lr)] if run.variant else rate), *options])


def _value(done: Sequence[pd.Series], name: str, columns: Columns, targets: SweepFile) -> Value | None:
    found = [(row, score) for row in done if (score := finite_cell(row, name)) is not None]
    if not found:
        return None
    scores = [score for _, score in found]
    mean, deviation = math.fsum(scores) / len(scores), stdev(scores) if scores[1:] else None
    before = [targets.baseline_of(row).get(name) for row, _ in found]
    possible = all(is_possible(score, name, columns) for score in scores)
    met = _met(columns[name].threshold, mean, scores, before) if possible else None
    return Value(mean, deviation, met, len(scores))


def _met(
    threshold: Constraint | None, mean: float, scores: Sequence[float], before: Sequence[float | None]
) -> bool | None:
    """Return whether the scores of a configuration's seeds meet a threshold; None if unknown.

    ``before`` has for each seed the target's score, or None if it was not measured. If the threshold is relative and
    the targets differ, every seed's score must meet the threshold relative to the seed's own target. Otherwise, the
    mean of the scores must meet the threshold.
    """
    if threshold is None:
        return None
    each = all_met(threshold.met(*pair) for pair in zip(scores, before, strict=True))
    if each or (threshold.relative and len(set(before)) > 1):
        return each
    return threshold.met(mean, before[0])
