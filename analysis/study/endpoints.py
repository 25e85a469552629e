"""Determine the two endpoints of a run: whether it succeeded or collapsed, and the quality of its model.

- A run *succeeded* if its model meets all thresholds of the sweep. By default, these are the thresholds of the paper.
- A run *collapsed* if it diverged, or if the primary metric of the retain set is below half of the target's value.
- The *quality* of a run is the primary metric of the retain set *at the thresholds*: the metric, minus the amount by
  which the model misses each threshold on forgetting, as a fraction of the range of that threshold's metric. So a model
  that forgot nothing has no quality, although it kept everything. The quality is unknown if a value for a threshold on
  forgetting is missing, or if there is no such threshold: then a model that forgot nothing could have the best quality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.frontier.criterion import Role, role_of
from analysis.study.study_runs import StudyRun
from analysis.tables.columns import Columns
from analysis.tables.sources import Sources
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import finite_cell
from analysis.words import cell
from search_spaces.constraint import Constraint, all_met, parse_constraint

COLLAPSE = 0.5
"""A run collapsed if its retain metric is below this fraction of the target's value."""


@dataclass(frozen=True, slots=True, eq=False)
class RunFacts:
    """The endpoints of a run.

    Attributes:
        success: whether the model meets all thresholds; None if a score is missing.
        collapsed: whether the run collapsed; None if unknown.
        quality: the retain metric at the thresholds; NaN if it was not measured, or if the thresholds on forgetting
            cannot be judged (``unjudged``). A collapsed run counts as 0 whatever its quality is.
        result: all losses and metrics of the run; () if none was measured. Equal results are the same run, repeated.
        seconds: the seconds of training and of the evaluations that the run needed for its decisions; NaN if unknown.
        accepted, updates: the numbers of accepted and of scheduled updates of the learning rate; None if unknown.
        unjudged: the thresholds on forgetting for which the run has no value; None if no threshold on forgetting
            applies.
    """

    run: StudyRun
    success: bool | None
    collapsed: bool | None
    quality: float
    result: tuple[object, ...]
    seconds: float
    accepted: int | None
    updates: int | None
    unjudged: tuple[str, ...] | None = ()

    @property
    def is_known(self) -> bool:
        """Whether the run can be compared: it collapsed, or it finished and its quality was measured."""
        return self.run.has_outcome and self.collapsed is not None and (self.collapsed or not math.isnan(self.quality))


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds that a successful run meets: the stated ones, then those of the paper on other data sets.

    ``baseline_of`` takes the row of a run and returns the metrics of the run's target.
    """

    all: tuple[Constraint, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]
    columns: Columns


def thresholds_of(sweep: SweepFile) -> Thresholds:
    columns, stated = sweep.columns, tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    stated_sets = {columns[item.name].of for item in stated}
    # The paper's thresholds do not apply to the metrics of image classifiers.
    files = (sweep, *sweep.files.values())
    measured = {name for file in files for scores in (file.baseline, *file.baselines.values()) for name in scores}
    unlimited = {name for name, item in columns.entries.items() if item.primary and item.threshold is None}
    applies = bool(measured & columns.thresholds.keys()) or not measured & unlimited
    papers = (
        item
        for name, item in columns.thresholds.items()
        if applies and columns[name].of not in stated_sets and (columns[name].primary or name in measured)
    )
    return Thresholds((*stated, *papers), sweep.baseline_of, columns)


def quality_measure(sources: Sequence[Sources]) -> str:
    """Return the first primary metric of the retain set that was measured for a target; "" if there is none."""
    for source in sources:
        for name, column in source.sweep.columns.entries.items():
            is_primary = column.primary and column.of == "retain" and column.direction == "max"
            if is_primary and any(name in file.baseline for file in source.sweeps):
                return name
    return ""


def run_facts(runs: Sequence[StudyRun], sources: Sequence[Sources], measure: str) -> list[RunFacts]:
    """Return the endpoints of each run, which is compared with the thresholds and the target of its own sweep."""
    thresholds = {name: thresholds_of(source.sweep) for source in sources for name in source.table.trials["sweep"]}
    return [_facts(run, thresholds[run.row["sweep"]], measure) for run in runs]


def _facts(run: StudyRun, thresholds: Thresholds, measure: str) -> RunFacts:
    target = thresholds.baseline_of(run.row)
    value, before = finite_cell(run.row, measure), target.get(measure)
    success = all_met(item.met(finite_cell(run.row, item.name), target.get(item.name)) for item in thresholds.all)
    has_collapsed = value < COLLAPSE * before if value is not None and before else None
    excesses = _excesses(run, thresholds, target)
    missed = _missed(excesses, thresholds.columns)
    unjudged = tuple(str(item) for item, excess in excesses if excess is None) if excesses else None
    result = tuple(cell(run.row.get(name)) for name in thresholds.columns.outcomes)
    train, decisions = finite_cell(run.row, "train_seconds"), finite_cell(run.row, "decision_seconds")
    accepted, updates = finite_cell(run.row, "lr_updates_accepted"), finite_cell(run.row, "lr_updates")
    return RunFacts(
        run=run,
        success=False if run.diverged else success,
        collapsed=True if run.diverged else has_collapsed,
        quality=math.nan if value is None or unjudged != () else max(0.0, value - missed),
        result=result if any(item is not None for item in result) else (),
        seconds=math.nan if train is None else train + (decisions or 0.0),
        accepted=None if accepted is None else int(accepted),
        updates=None if updates is None else int(updates),
        unjudged=unjudged,
    )


def _excesses(
    run: StudyRun, thresholds: Thresholds, target: Mapping[str, float]
) -> list[tuple[Constraint, float | None]]:
    """Return by how much a model exceeds each threshold on forgetting (:meth:`.Constraint.violation`)."""
    return [
        (item, item.violation(finite_cell(run.row, item.name), target.get(item.name)))
        for item in thresholds.all
        if role_of(item, thresholds.columns) is Role.FORGET
    ]


def _missed(excesses: Sequence[tuple[Constraint, float | None]], columns: Columns) -> float:
    """Return by how much a model misses the thresholds on forgetting, in fractions of the ranges of their metrics."""
    missed = 0.0
    for item, excess in excesses:
        low, high = columns[item.name].bounds
        if excess is not None and low is not None and high is not None:
            missed += max(0.0, excess) / (high - low)
    return missed
