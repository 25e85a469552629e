"""The criterion of success in a comparison: which thresholds apply to a task, and whether a trial meets them.

A threshold from the paper applies to a task if its metric was measured there, on a model or on the target. For example,
the threshold of knowledge memorisation applies only to data with questions about the forgotten texts. If no threshold
from the paper applies to the forget set (or to the retain set), the bounds of the report's stand-in metric apply, such
as the accuracy of an image classifier (:func:`_least_bound`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.out_of_bounds import is_possible
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell
from search_spaces.constraint import Constraint, all_met

_SETS = ("forget", "retain")
_FORGET_SHARE, _RETAIN_SHARE = 0.95, 0.7


@dataclass(frozen=True, slots=True)
class Criterion:
    """The thresholds that a successful trial meets.

    Attributes:
        thresholds: the thresholds that apply, keyed by column.
        unjudged: the columns with thresholds that would be needed, but that cannot be compared with any trial.
        baseline_of: function that takes the row of a trial and returns the metrics of the trial's target.
    """

    thresholds: Mapping[str, Constraint]
    unjudged: tuple[str, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]
    columns: Columns

    def score(self, row: pd.Series, name: str) -> float | None:
        """Return a metric of a trial; None if it is missing or out of bounds."""
        value = finite_cell(row, name)
        return value if value is not None and is_possible(value, name, self.columns) else None

    def succeeds(self, row: pd.Series) -> bool | None:
        """Return whether a finished trial meets all thresholds; None if unknown.

        The result is unknown, too, if no threshold applies to the forget set or to the retain set.
        """
        verdicts = [self._met(row, name) for name in self.thresholds]
        has_both_sets = {self.columns[name].of for name in self.thresholds} >= set(_SETS)
        return all_met([*verdicts, *([] if has_both_sets else [None])])

    def _met(self, row: pd.Series, name: str) -> bool | None:
        return self.thresholds[name].met(self.score(row, name), self.baseline_of(row).get(name))


def criterion_of(table: TrialTable, sweep: SweepFile) -> Criterion:
    """Return the criterion for the trials of one task."""
    columns = table.columns
    targets = [sweep.baseline, *(file.baseline for file in sweep.files.values())]
    measured = {*table.measured(columns.metrics), *(name for target in targets for name in target)}
    thresholds = {name: item for name, item in columns.thresholds.items() if name in measured}
    unjudged = []
    for of in _SETS:
        if any(columns[name].of == of for name in thresholds):
            continue
        names = [name for name in columns.primaries(measured) if columns[name].of == of]
        thresholds |= {name: _least_bound(name, columns) for name in names}
        if not names:
            primaries = (name for name in columns.thresholds if columns[name].primary)
            unjudged += [name for name in primaries if columns[name].of == of]
    criterion = Criterion(thresholds, (), sweep.baseline_of, columns)
    finished = [row for _, row in table.finished.iterrows()]
    unjudged += [name for name in thresholds if all(criterion._met(row, name) is None for row in finished)]
    return Criterion(thresholds, tuple(dict.fromkeys(unjudged)) if finished else (), sweep.baseline_of, columns)


def _least_bound(name: str, columns: Columns) -> Constraint:
    """Return the bound for a primary metric without a threshold: 95% (forget set) or 70% (retain set) of the target's.

    If smaller values mean keeping, or larger values mean forgetting, the bound is the target's value divided by the
    share.
    """
    share, is_retain = (_RETAIN_SHARE, True) if columns[name].of == "retain" else (_FORGET_SHARE, False)
    rises = columns[name].direction == "max"
    return Constraint(name, ">=" if rises else "<=", share if rises == is_retain else 1.0 / share, relative=True)
