"""Determine the thresholds that a model must meet, and stand-ins for a side that no threshold decides.

A threshold is stated by a user (``--constraint``) or, for a set without a stated threshold, taken from the paper. If no
threshold shows whether something was forgotten (or kept), a stand-in does: another primary metric of the set, or its
loss. Every good model meets the first bound of a stand-in, and only good models meet the second. If a model meets only
the first, the side is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pandas as pd

from analysis.frontier.frontier import LEAST_GAIN
from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import finite_cell
from search_spaces.constraint import Constraint, parse_constraint

NEAR_GUESS = 0.75
"""A model keeps nothing if its retain loss is at least this share of the loss of a random guess."""
_SHOWN = 0.1
"""A share of the way from the target's loss to that of a random guess. A forget loss beyond it shows forgetting, and a
retain loss below it shows keeping."""
_FELL, _HALVED, _KEPT = 0.95, 0.5, 0.7
"""Shares of the target's value. For another metric of the forget set, nothing was forgotten above the first share, and
something was forgotten below the second. The third, from the paper, is for a metric of the retain set."""
FORGETTING, KEEPING = "forgetting", "keeping"
SIDES = (FORGETTING, KEEPING)
"""The two sides of the trade-off."""
_OF = {FORGETTING: "forget", KEEPING: "retain"}


@dataclass(frozen=True, slots=True)
class StandIn:
    """Two bounds on a score: a model that misses ``least`` is not good, and only a model that meets ``proof`` is."""

    least: Constraint
    proof: Constraint


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds in force.

    Attributes:
        all: the thresholds that apply; the ``stated`` ones come first.
        aside: the paper's thresholds for sets with stated ones. They apply only if the stated scores were not measured.
        baseline_of: the function that returns the metrics of the target from which a row started.
    """

    all: tuple[Constraint, ...]
    stated: tuple[Constraint, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]
    columns: Columns = field(default_factory=Columns)
    aside: tuple[Constraint, ...] = ()

    def of(self, name: str) -> tuple[Constraint, ...]:
        """Return the thresholds on one column."""
        return tuple(item for item in self.all if item.name == name)


def thresholds_of(sweep: SweepFile) -> Thresholds:
    """Return the stated thresholds, and the paper's thresholds for each set that has no stated one."""
    columns, stated = sweep.columns, tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    sets = {columns[item.name].of for item in stated}
    # The paper's thresholds do not apply to the metrics of image classifiers.
    files = (sweep, *sweep.parts.values())
    measured = {name for file in files for known in (file.baseline, *file.baselines.values()) for name in known}
    other = {name for name, item in columns.entries.items() if item.primary and item.threshold is None}
    papers = columns.thresholds if measured & columns.thresholds.keys() or not measured & other else {}
    beside, aside = (
        tuple(item for name, item in papers.items() if (columns[name].of in sets) is out) for out in (False, True)
    )
    return Thresholds((*stated, *beside), stated, sweep.baseline_of, columns, aside)


def asks_for(item: Constraint, columns: Columns) -> str:
    """Return the side (forgetting or keeping) that a threshold is about; "" if neither."""
    column = columns[item.name]
    if column.of not in _OF.values() or column.direction is None:
        return ""
    along = item.sign.startswith(">") == (column.direction == "max")
    return FORGETTING if along == (column.of == _OF[FORGETTING]) else KEEPING


def stand_ins(row: pd.Series, target: Mapping[str, float], columns: Columns) -> dict[str, StandIn]:
    """Return the stand-in of each side; a side is missing without scores, or if the target has nothing to keep."""
    found: dict[str, StandIn] = {}
    for side, item in _stand_ins(row, target, columns):
        found.setdefault(side, item)
    return found


def _stand_ins(row: pd.Series, target: Mapping[str, float], columns: Columns) -> Iterator[tuple[str, StandIn]]:
    for name, column in columns.entries.items():
        if column.primary and column.threshold is None and finite_cell(row, name) is not None and target.get(name):
            sign, rises = (">=", True) if column.direction == "max" else ("<=", False)
            # The inverse share is used if smaller values mean keeping, or larger values mean forgetting.
            shares = (_KEPT, _KEPT) if column.of == _OF[KEEPING] else (_FELL, _HALVED)
            is_share = rises == (column.of == _OF[KEEPING])
            least, proof = (Constraint(name, sign, x if is_share else 1.0 / x, relative=True) for x in shares)
            yield (KEEPING if column.of == _OF[KEEPING] else FORGETTING), StandIn(least, proof)
    for name in filter(columns.is_loss, columns.entries):
        before, guess = target.get(name), columns[name].bounds[1]
        shown = (before or 0.0) + _SHOWN * max((guess or 0.0) - (before or 0.0), 0.0)
        if columns[name].of == _OF[FORGETTING] and before is not None:
            least = Constraint(name, ">", _rounded(before + LEAST_GAIN * (guess or 0.0)))
            yield FORGETTING, StandIn(least, least if guess is None else Constraint(name, ">=", _rounded(shown)))
        if columns[name].of == _OF[KEEPING] and guess is not None and (before or 0.0) < NEAR_GUESS * guess:
            kept = Constraint(name, "<=", _rounded(shown))
            yield KEEPING, StandIn(Constraint(name, "<", _rounded(NEAR_GUESS * guess)), kept)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
