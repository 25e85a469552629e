"""Determine the thresholds that a model must meet, and other scores to use if no threshold can be judged.

The user states thresholds with ``--constraint``. The paper's thresholds apply to data sets without a stated threshold.
If no threshold shows whether a model forgot (or kept) enough, another score serves as a stand-in: another primary
metric of the same data set, or the loss on this data set. A stand-in has two bounds. A model that misses the first
bound (``least``) is bad, and a model that meets the second (``proof``) is good. Between the bounds, the stand-in
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from analysis.frontier.frontier import LEAST_GAIN
from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import finite_cell
from search_spaces.constraint import Constraint, parse_constraint

NEAR_GUESS = 0.75
"""A model counts as keeping nothing if its retain loss is at least this share of the loss of a random guess."""
_SHOWN = 0.1
"""A share of the way from the target's loss to the loss of a random guess. A forget loss above the point at this share
shows forgetting, and a retain loss below the point shows keeping."""
_FELL, _HALVED, _KEPT = 0.95, 0.5, 0.7
"""Shares of the target's score. If a metric of the forget set is above the first share, nothing was forgotten; if it is
below the second share, something was forgotten. A metric of the retain set must reach the third share (from the paper).
"""
FORGETTING, KEEPING = "forgetting", "keeping"
SIDES = (FORGETTING, KEEPING)
"""The two sides of the trade-off between forgetting and keeping."""
_OF = {FORGETTING: "forget", KEEPING: "retain"}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds that the models of a sweep must meet.

    Attributes:
        all: the thresholds that apply; the ``stated`` thresholds come first.
        baseline_of: a function that returns the metrics of the target from which a row started.
    """

    all: tuple[Constraint, ...]
    stated: tuple[Constraint, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]
    columns: Columns = field(default_factory=Columns)

    def of(self, name: str) -> tuple[Constraint, ...]:
        """Return the thresholds on the column ``name``."""
        return tuple(item for item in self.all if item.name == name)


def thresholds_of(sweep: SweepFile) -> Thresholds:
    """Return the stated thresholds, and the paper's thresholds for data sets that have no stated threshold."""
    columns, stated = sweep.columns, tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    sets = {columns[item.name].of for item in stated}
    # The paper's thresholds do not apply to the metrics of image classifiers.
    files = (sweep, *sweep.parts.values())
    measured = {name for file in files for known in (file.baseline, *file.baselines.values()) for name in known}
    other = {name for name, item in columns.entries.items() if item.primary and item.threshold is None}
    papers = columns.thresholds if measured & columns.thresholds.keys() or not measured & other else {}
    beside = (item for name, item in papers.items() if columns[name].of not in sets)
    return Thresholds((*stated, *beside), stated, sweep.baseline_of, columns)


def asks_for(item: Constraint, columns: Columns) -> str:
    """Return whether a threshold is about ``forgetting`` or ``keeping``; "" if it is about neither."""
    column = columns[item.name]
    if column.of not in _OF.values() or column.direction is None:
        return ""
    along = item.sign.startswith(">") == (column.direction == "max")
    return FORGETTING if along == (column.of == _OF[FORGETTING]) else KEEPING


def bound_of(item: Constraint, before: float | None) -> float:
    """Return the bound of a threshold as a score. A relative bound is a share of ``before``, the target's score."""
    return item.bound * (before or 0.0) if item.relative else item.bound


def stand_ins(
    row: pd.Series, target: Mapping[str, float], columns: Columns
) -> dict[str, tuple[Constraint, Constraint]]:
    """Return the bounds ``least`` and ``proof`` on the stand-in score for forgetting and for keeping.

    A side is left out if no suitable score was measured, or if the target has nothing to keep.
    """
    found: dict[str, tuple[Constraint, Constraint]] = {}
    for name, column in columns.entries.items():
        if column.primary and column.threshold is None and finite_cell(row, name) is not None and target.get(name):
            is_kept, rises = column.of == _OF[KEEPING], column.direction == "max"
            # The inverse share is used if smaller values mean keeping, or larger values mean forgetting.
            shares = [x if rises == is_kept else 1.0 / x for x in ((_KEPT, _KEPT) if is_kept else (_FELL, _HALVED))]
            least, proof = (Constraint(name, ">=" if rises else "<=", share, relative=True) for share in shares)
            found.setdefault(KEEPING if is_kept else FORGETTING, (least, proof))
    for name in filter(columns.is_loss, columns.entries):
        before, guess = target.get(name), columns[name].bounds[1]
        shown = _rounded((before or 0.0) + _SHOWN * max((guess or 0.0) - (before or 0.0), 0.0))
        if columns[name].of == _OF[FORGETTING] and before is not None:
            least = Constraint(name, ">", _rounded(before + LEAST_GAIN * (guess or 0.0)))
            found.setdefault(FORGETTING, (least, least if guess is None else Constraint(name, ">=", shown)))
        if columns[name].of == _OF[KEEPING] and guess is not None and (before or 0.0) < NEAR_GUESS * guess:
            least = Constraint(name, "<", _rounded(NEAR_GUESS * guess))
            found.setdefault(KEEPING, (least, Constraint(name, "<=", shown)))
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
