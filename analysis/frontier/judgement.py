"""Whether any model of a sweep is worth taking: all of them held against the thresholds, before one is recommended.

The thresholds are those a user stated (``--constraint``); for the set about which nothing was stated, forget or retain,
the paper's. A model is judged by what was measured of it, and what was not is named. A good one has forgotten something
and kept something: where no threshold shows that of a set, its loss stands in. Console, page, ``pick`` and MLflow all
say what is found here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.frontier.frontier import LEAST_GAIN
from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Objective, costs_of, measured, values_of
from analysis.tables.trial_table import finite_cell, numbers
from search_spaces.constraint import Constraint, all_met, parse_constraint

_HARDLY = 0.25
"""Of the way from the No-unlearn model to the threshold: up to here nothing was forgotten."""
_NEAR_GUESS = 0.75
"""Of the loss of a random guess: a model whose retain loss is as high keeps nothing."""
FORGETTING, KEEPING = "forgetting", "keeping"
SIDES = (FORGETTING, KEEPING)
"""The two sides of a trade-off."""


class Outcome(StrEnum):
    """What a sweep found."""

    GOOD = "good trade-off"
    NOTHING_FORGOTTEN = "nothing was forgotten"
    TOO_LITTLE = "too little was forgotten"
    LOST = "everything was lost"
    TOO_MUCH = "too much was lost"
    NO_TRADE_OFF = "no good trade-off"
    MISSED = "a threshold was missed"
    ONE_SIDED = "one side was not measured"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a model must meet; ``stated`` are those of them that a user stated, the others are the paper's.

    ``baseline_of`` gives the metrics of the No-unlearn model from which a row of a table of models started; ``columns``
    say which side a threshold is about.
    """

    all: tuple[Constraint, ...]
    stated: tuple[Constraint, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]
    columns: Columns = field(default_factory=Columns)

    def of(self, name: str) -> tuple[Constraint, ...]:
        """Those on one column."""
        return tuple(item for item in self.all if item.name == name)

    def verdicts(self, row: pd.Series) -> dict[Constraint, bool | None]:
        """Of each threshold whether the row meets it; None where it or the baseline was not measured."""
        before = self.baseline_of(row)
        return {item: item.met(finite_cell(row, item.name), before.get(item.name)) for item in self.all}

    def met(self, row: pd.Series) -> bool | None:
        """Whether all are met; None where one cannot be judged and none is missed, or there is none."""
        return all_met(self.verdicts(row).values())

    def held(self, row: pd.Series) -> dict[Constraint, bool | None]:
        """The verdicts, and those on the losses that stand in for a side of which they do not tell."""
        found, before = self.verdicts(row), self.baseline_of(row)
        losses = [loss for side, loss in self.losses(row).items() if not self._tell(side, found, before)]
        values = {loss: finite_cell(row, loss.name) for loss in losses}
        return found | {loss: loss.met(value) for loss, value in values.items() if value is not None}

    def sides(self, row: pd.Series) -> dict[str, bool]:
        """The sides, :data:`FORGETTING` and :data:`KEEPING`, of which something is known: whether by a threshold, or
        only by the loss that stands in."""
        verdicts, held, losses = self.verdicts(row), self.held(row), self.losses(row)
        told = {side: self._tell(side, verdicts, self.baseline_of(row)) for side in SIDES}
        return {side: by_threshold for side, by_threshold in told.items() if by_threshold or losses.get(side) in held}

    def good(self, row: pd.Series) -> bool:
        """Whether all that can be judged are met, and both sides are known, one at least by a threshold."""
        sides = self.sides(row)
        return False not in self.held(row).values() and len(sides) == len(SIDES) and any(sides.values())

    def losses(self, row: pd.Series) -> dict[str, Constraint]:
        """What the losses must show by side, where no threshold tells of it: that of the forget set has risen, that of
        the retain set is not a guess's.

        A side is missing where the numbers for it are, and where the No-unlearn model keeps nothing itself.
        """
        found: dict[str, Constraint] = {}
        columns, baseline = self.columns, self.baseline_of(row)
        for name in filter(columns.is_loss, columns.entries):
            before, guess = baseline.get(name), columns[name].bounds[1]
            if columns[name].of == "forget" and before is not None:
                found.setdefault(FORGETTING, Constraint(name, ">", _rounded(before + LEAST_GAIN * (guess or 0.0))))
            if columns[name].of == "retain" and guess is not None and (before or 0.0) < _NEAR_GUESS * guess:
                found.setdefault(KEEPING, Constraint(name, "<", _rounded(_NEAR_GUESS * guess)))
        return found

    def _tell(self, side: str, verdicts: Mapping[Constraint, bool | None], baseline: Mapping[str, float]) -> bool:
        """Whether the verdicts tell of a side: those stated and those on the set's primary metric do.

        What the No-unlearn model meets, too, does not tell that it forgot.
        """
        judged = [
            item
            for item in _judged(verdicts)
            if asks_for(item, self.columns) == side and (item in self.stated or self.columns[item.name].primary)
        ]
        before = {item: baseline.get(item.name) for item in judged}
        return any(side == KEEPING or item.met(value, value) is not True for item, value in before.items())

    @property
    def whose(self) -> str:
        """``the paper's thresholds``, ``the thresholds stated``."""
        if not self.stated:
            return "the paper's thresholds"
        return "the thresholds stated" + ("" if self.stated == self.all else " and, beside them, the paper's")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rows of a table of models come to.

    Attributes:
        outcome: what was found.
        place: the position of the row to take or, where none is good, of the one that comes closest; None without rows.
        decisive: where the outcome is about one threshold, that threshold, and the value that comes closest to it.
        judged: how many rows could be judged.
        unknown: the side of which nothing was measured, where the outcome is that.
    """

    outcome: Outcome
    place: int | None
    decisive: tuple[Constraint, float] | None
    judged: int
    unknown: str = ""

    @property
    def recommended(self) -> bool:
        """Whether the row is one to take, as far as anybody can say."""
        return self.outcome in (Outcome.GOOD, Outcome.NOT_JUDGED)


def thresholds_of(sweep: SweepFile) -> Thresholds:
    """The thresholds in force: those stated, and the paper's for a set about which none is."""
    columns, stated = sweep.columns, tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    told = {columns[item.name].of for item in stated}
    papers = tuple(item for name, item in columns.thresholds.items() if columns[name].of not in told)
    return Thresholds((*stated, *papers), stated, sweep.baseline_of, columns)


def judge(rows: pd.DataFrame, thresholds: Thresholds, columns: Columns, objectives: Sequence[Objective]) -> Judgement:
    """Hold every row, one finished model each, against the thresholds.

    Of good ones that of which most was measured is taken, then the one nearest to the ideal corner of the objectives.
    Where there is none, the closest has the least sum of what it misses, each in bounds and at most 1.
    """
    distance = _distance(rows, objectives)
    found = [thresholds.held(row) for _, row in rows.iterrows()]
    own = set(thresholds.all)
    judged = [place for place, verdicts in enumerate(found) if own & _judged(verdicts)]
    # With losses only, they alone are asked.
    asked = judged or [place for place in range(len(rows)) if np.isfinite(distance[place])]
    if not asked:
        return Judgement(Outcome.NOT_JUDGED, None, None, 0)
    passed = [place for place in asked if False not in found[place].values()]
    sides = {place: thresholds.sides(rows.iloc[place]) for place in passed}
    good = [place for place in passed if thresholds.good(rows.iloc[place])]
    one_sided = [place for place in passed if any(sides[place].values())]
    unmeasured = {place: list(found[place].values()).count(None) for place in passed}
    best = min(good or one_sided or passed, key=lambda place: (unmeasured[place], distance[place]), default=None)
    if good:
        return Judgement(Outcome.GOOD, best, None, len(judged))
    if best is not None and one_sided:
        (unknown,) = set(SIDES) - set(sides[best])
        return Judgement(Outcome.ONE_SIDED, best, None, len(judged), unknown)
    if best is not None:
        return Judgement(Outcome.NOT_JUDGED, best, None, 0)
    missed = {place: _missed(rows.iloc[place], thresholds, columns) for place in asked}
    closest = min(asked, key=lambda place: (sum(missed[place].values()), distance[place]))
    outcome, decisive = _outcome(rows, missed, thresholds, columns)
    return Judgement(outcome, closest, decisive, len(asked))


def _outcome(
    rows: pd.DataFrame,
    missed: Mapping[int, Mapping[Constraint, float]],
    thresholds: Thresholds,
    columns: Columns,
) -> tuple[Outcome, tuple[Constraint, float] | None]:
    """What all rows have in common: they forget too little, lose too much, or do either."""
    forgets, keeps = (
        {place: sum(by for item, by in found.items() if asks_for(item, columns) == what) for place, found in
         missed.items()}
        for what in SIDES
    )  # fmt: skip
    aside = [place for place in missed if not forgets[place] and not keeps[place]]
    if aside:
        return _missed_beside(rows, aside, missed)
    kept = [place for place in missed if forgets[place] > 0 and not keeps[place]]
    lost = [place for place in missed if keeps[place] > 0 and not forgets[place]]
    both = [place for place in missed if keeps[place] > 0 and forgets[place] > 0]
    if kept and not lost and not any(forgets[place] < min(forgets[other] for other in kept) for place in both):
        return _named(rows, kept, missed, thresholds, columns, FORGETTING)
    if lost and not kept and not any(keeps[place] < min(keeps[other] for other in lost) for place in both):
        return _named(rows, lost, missed, thresholds, columns, KEEPING)
    return Outcome.NO_TRADE_OFF, None


def _named(
    rows: pd.DataFrame,
    places: Sequence[int],
    missed: Mapping[int, Mapping[Constraint, float]],
    thresholds: Thresholds,
    columns: Columns,
    what: str,
) -> tuple[Outcome, tuple[Constraint, float] | None]:
    """The outcome, and the threshold on which it shows best, if one is missed by all."""
    every = dict.fromkeys([*thresholds.all, *(item for found in missed.values() for item in found)])
    asked = [item for item in every if asks_for(item, columns) == what]
    item = max(asked, key=lambda item: sum(item in missed[place] for place in places))
    judged = rows.iloc[list(missed)]
    judged = judged[numbers(judged, item.name).notna()]
    values = numbers(judged, item.name)
    best = float(values.max() if item.sign.startswith(">") else values.min())
    decisive = (item, best) if all(item in missed[place] for place in places) else None
    starts = [thresholds.baseline_of(row).get(item.name) for _, row in judged.iterrows()]
    found = [
        (value, before, item.bound * (before or 0.0) if item.relative else item.bound)
        for value, before in zip(values, starts, strict=True)
    ]
    if what == FORGETTING:
        hardly = all(
            before is not None and before != bound and (before - value) / (before - bound) <= _HARDLY
            for value, before, bound in found
        )
        return (Outcome.NOTHING_FORGOTTEN if hardly else Outcome.TOO_LITTLE), decisive
    # The loss that stands in is missed by a model that keeps nothing.
    ruined = item not in thresholds.all or all(
        value < bound / 2 if item.sign.startswith(">") else value > 2 * bound for value, _, bound in found
    )
    return (Outcome.LOST if ruined else Outcome.TOO_MUCH), decisive


def _missed_beside(
    rows: pd.DataFrame, places: Sequence[int], missed: Mapping[int, Mapping[Constraint, float]]
) -> tuple[Outcome, tuple[Constraint, float]]:
    """These rows forget and keep enough: the threshold that is none of either and that most of them miss."""
    counts = Counter(item for place in places for item in missed[place])
    item = counts.most_common(1)[0][0]
    values = numbers(rows.iloc[list(places)], item.name).dropna()
    return Outcome.MISSED, (item, float(values.max() if item.sign.startswith(">") else values.min()))


def _missed(row: pd.Series, thresholds: Thresholds, columns: Columns) -> dict[Constraint, float]:
    """How far the row is from each threshold that it misses: ``x / (1 + x)``, x the share of the way to the worst.

    The worst is what No-unlearn has where something is to be forgotten, and the far bound where it is to be kept. Where
    that is not known, x is in bounds (in ranges for a bound of 0).
    """
    found, baseline = {}, thresholds.baseline_of(row)
    for item in thresholds.held(row):
        by = item.violation(finite_cell(row, item.name), baseline.get(item.name))
        if by is not None and by > 0:
            before = baseline.get(item.name)
            bound = item.bound * (before or 0.0) if item.relative else item.bound
            low, high = columns[item.name].bounds
            side = asks_for(item, columns)
            worst = before if side == FORGETTING else (low if item.sign.startswith(">") else high) if side else None
            scale = abs(bound - worst) if worst is not None else abs(bound)
            scale = scale or (high - low if low is not None and high is not None else 1.0)
            found[item] = max(by / (by + scale), math.ulp(0.0))
    return found


def asks_for(item: Constraint, columns: Columns) -> str:
    """:data:`FORGETTING` or :data:`KEEPING`, by the set the column is about and the way the bound points; else ""."""
    column = columns[item.name]
    if column.of not in ("forget", "retain") or column.direction is None:
        return ""
    along = item.sign.startswith(">") == (column.direction == "max")
    return FORGETTING if along == (column.of == "forget") else KEEPING


def _judged(verdicts: Mapping[Constraint, bool | None]) -> set[Constraint]:
    return {item for item, verdict in verdicts.items() if verdict is not None}


def _rounded(value: float) -> float:
    """A bound to three digits, as it is told."""
    return float(f"{value:.3g}")


def _distance(rows: pd.DataFrame, objectives: Sequence[Objective]) -> Floats:
    """From the ideal corner, per row; infinite where an objective is missing."""
    distance = np.full(len(rows), np.inf)
    if objectives and len(rows):
        values = values_of(rows, objectives)
        there = measured(values)
        distance[there] = np.linalg.norm(costs_of(values[there], objectives), axis=1)
    return distance
