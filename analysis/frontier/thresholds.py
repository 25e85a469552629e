"""What a model must meet to be worth taking: thresholds, and what stands in for a set of which none tells.

The thresholds are those a user stated (``--constraint``); for the set about which nothing was stated, forget or retain,
the paper's. Where none shows that something was forgotten, or kept, another primary metric of the set does or, at last,
its loss: a bound that no good model misses, and one that only a good model meets. Between the two nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from analysis.frontier.frontier import LEAST_GAIN
from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import finite_cell
from search_spaces.constraint import Constraint, all_met, parse_constraint

NEAR_GUESS = 0.75
"""Of the loss of a random guess: a model whose retain loss is as high keeps nothing."""
_SHOWN = 0.1
"""Of the way from No-unlearn's loss to a guess's: a forget loss beyond it shows that something was forgotten, a retain
loss within it that something was kept."""
_FELL, _HALVED, _KEPT = 0.95, 0.5, 0.7
"""Shares of No-unlearn's value in another metric: one of the forget set that has not fallen to the first shows that
nothing was forgotten, one that has fallen to the second that something was; the third is the paper's for what is
kept."""
FORGETTING, KEEPING = "forgetting", "keeping"
SIDES = (FORGETTING, KEEPING)
"""The two sides of a trade-off."""
_OF = {FORGETTING: "forget", KEEPING: "retain"}


@dataclass(frozen=True, slots=True)
class StandIn:
    """What tells of a side no threshold tells of: what misses ``least`` is no good, only what meets ``proof`` is."""

    least: Constraint
    proof: Constraint


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a model must meet; ``stated`` are those of them that a user stated, the others are the paper's.

    The paper's on a set about which something is stated are ``aside``: they hold where that was not measured.
    ``baseline_of`` gives the metrics of the No-unlearn model from which a row of a table of models started; ``columns``
    say which side a threshold is about.
    """

    all: tuple[Constraint, ...]
    stated: tuple[Constraint, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]
    columns: Columns = field(default_factory=Columns)
    aside: tuple[Constraint, ...] = ()

    def of(self, name: str) -> tuple[Constraint, ...]:
        """Those on one column."""
        return tuple(item for item in self.all if item.name == name)

    def verdicts(self, row: pd.Series) -> dict[Constraint, bool | None]:
        """Of each threshold whether the row meets it; None where it or the baseline was not measured."""
        found = self._met(row, self.all)
        told = {self.columns[item.name].of for item in self.stated if found[item] is not None}
        return found | self._met(row, (item for item in self.aside if self.columns[item.name].of not in told))

    def met(self, row: pd.Series) -> bool | None:
        """Whether all are met; None where one cannot be judged and none is missed, or there is none."""
        return all_met(self.verdicts(row).values())

    def held(self, row: pd.Series) -> dict[Constraint, bool | None]:
        """The verdicts, and those on what stands in for a side of which they do not tell."""
        found = self.verdicts(row)
        least = (item.least for side, item in self.stand_ins(row).items() if not self._tell(side, row, found))
        return found | {item: met for item, met in self._met(row, least).items() if met is not None}

    def sides(self, row: pd.Series) -> dict[str, bool]:
        """The sides, :data:`FORGETTING` and :data:`KEEPING`, of which something is known: whether by a threshold, or
        only by what stands in."""
        verdicts, stand_ins = self.verdicts(row), self.stand_ins(row)
        told = {side: self._tell(side, row, verdicts) for side in SIDES}
        shown = {side for side, item in stand_ins.items() if False in self._met(row, [item.least]).values()}
        shown |= {side for side, item in stand_ins.items() if True in self._met(row, [item.proof]).values()}
        return {side: by_threshold for side, by_threshold in told.items() if by_threshold or side in shown}

    def good(self, row: pd.Series) -> bool:
        """Whether all that can be judged are met, those stated are among that, and both sides are known, one at least
        by a threshold."""
        held, sides = self.held(row), self.sides(row)
        stated = all(held[item] is not None for item in self.stated)
        return stated and False not in held.values() and len(sides) == len(SIDES) and any(sides.values())

    def stand_ins(self, row: pd.Series) -> dict[str, StandIn]:
        """What tells of a side of the row where no threshold does.

        A side is missing where the numbers for it are, and where the No-unlearn model keeps nothing itself.
        """
        found: dict[str, StandIn] = {}
        columns, baseline = self.columns, self.baseline_of(row)
        scores = (name for name in columns.entries if columns[name].primary and columns[name].threshold is None)
        for name in scores:
            if finite_cell(row, name) is not None and baseline.get(name):
                found.setdefault(*_by_score(name, columns))
        for name in filter(columns.is_loss, columns.entries):
            before, guess = baseline.get(name), columns[name].bounds[1]
            if columns[name].of == "forget" and before is not None:
                found.setdefault(FORGETTING, _risen(name, before, guess))
            if columns[name].of == "retain" and guess is not None and (before or 0.0) < NEAR_GUESS * guess:
                found.setdefault(KEEPING, _stayed(name, before or 0.0, guess))
        return found

    def not_shown(self, row: pd.Series) -> list[str]:
        """The sides on which a metric other than the losses stands in, and shows neither."""
        scores = {side for side, item in self.stand_ins(row).items() if not self.columns.is_loss(item.least.name)}
        return [side for side in SIDES if side in scores - self.sides(row).keys()]

    def keeps_nothing(self, row: pd.Series) -> bool:
        """Whether the No-unlearn model has nothing to keep, by every measure of that which the row has."""
        before = self.baseline_of(row)
        asked = {item for item in self.all if asks_for(item, self.columns) == KEEPING and item.relative}
        there = [before[item.name] for item in asked if item.name in before and finite_cell(row, item.name) is not None]
        return bool(there) and not any(there) and KEEPING not in self.stand_ins(row)

    def _met(self, row: pd.Series, asked: Iterable[Constraint]) -> dict[Constraint, bool | None]:
        before = self.baseline_of(row)
        return {item: item.met(finite_cell(row, item.name), before.get(item.name)) for item in asked}

    def _tell(self, side: str, row: pd.Series, verdicts: Mapping[Constraint, bool | None]) -> bool:
        """Whether the verdicts tell of a side: those stated and those on the set's primary metric do.

        What the No-unlearn model meets, too, does not tell that it forgot.
        """
        baseline = self.baseline_of(row)
        judged = [
            item
            for item in judged_of(verdicts)
            if asks_for(item, self.columns) == side and (item in self.stated or self.columns[item.name].primary)
        ]
        before = {item: baseline.get(item.name) for item in judged}
        return any(side == KEEPING or item.met(value, value) is not True for item, value in before.items())


def thresholds_of(sweep: SweepFile) -> Thresholds:
    """The thresholds in force: those stated, and the paper's for a set about which none is."""
    columns, stated = sweep.columns, tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    told = {columns[item.name].of for item in stated}
    papers = columns.thresholds.items() if _is_papers(sweep) else ()
    beside, aside = (tuple(item for name, item in papers if (columns[name].of in told) is out) for out in (False, True))
    return Thresholds((*stated, *beside), stated, sweep.baseline_of, columns, aside)


def _is_papers(sweep: SweepFile) -> bool:
    """Whether the paper's thresholds are on what this problem has: not where images are classified."""
    files = (sweep, *sweep.parts.values())
    measured = {name for file in files for known in (file.baseline, *file.baselines.values()) for name in known}
    other = {name for name, item in sweep.columns.entries.items() if item.primary and item.threshold is None}
    return bool(measured & sweep.columns.thresholds.keys()) or not measured & other


def asks_for(item: Constraint, columns: Columns) -> str:
    """:data:`FORGETTING` or :data:`KEEPING`, by the set the column is about and the way the bound points; else ""."""
    column = columns[item.name]
    if column.of not in _OF.values() or column.direction is None:
        return ""
    along = item.sign.startswith(">") == (column.direction == "max")
    return FORGETTING if along == (column.of == _OF[FORGETTING]) else KEEPING


def judged_of(verdicts: Mapping[Constraint, bool | None]) -> set[Constraint]:
    """The thresholds of which it is known whether they are met."""
    return {item for item, verdict in verdicts.items() if verdict is not None}


def _by_score(name: str, columns: Columns) -> tuple[str, StandIn]:
    """The side a primary metric tells of, and what of it stands in."""
    better = ">=" if columns[name].direction == "max" else "<="
    if columns[name].of == _OF[KEEPING]:
        kept = Constraint(name, better, _KEPT if better == ">=" else 1.0 / _KEPT, relative=True)
        return KEEPING, StandIn(kept, kept)
    fell, halved = ((share if better == "<=" else 1.0 / share) for share in (_FELL, _HALVED))
    return FORGETTING, StandIn(*(Constraint(name, better, share, relative=True) for share in (fell, halved)))


def _risen(name: str, before: float, guess: float | None) -> StandIn:
    least = Constraint(name, ">", _rounded(before + LEAST_GAIN * (guess or 0.0)))
    return StandIn(least, least if guess is None else Constraint(name, ">=", _rounded(_towards(before, guess))))


def _stayed(name: str, before: float, guess: float) -> StandIn:
    least = Constraint(name, "<", _rounded(NEAR_GUESS * guess))
    return StandIn(least, Constraint(name, "<=", _rounded(_towards(before, guess))))


def _towards(before: float, guess: float) -> float:
    return before + _SHOWN * max(guess - before, 0.0)


def _rounded(value: float) -> float:
    """A bound to three digits, as it is told."""
    return float(f"{value:.3g}")
