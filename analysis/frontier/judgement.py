"""Whether any model of a sweep is worth taking: all of them held against the thresholds, before one is recommended.

The thresholds are those a user stated (``--constraint``); for the set about which nothing was stated, forget or retain,
the paper's. A model is judged by what was measured of it, and what was not is named. Console, page, ``pick`` and MLflow
all say what is found here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Objective, costs_of, measured, values_of
from analysis.tables.trial_table import finite_cell, numbers
from search_spaces.constraint import Constraint, parse_constraint

_HARDLY = 0.25
"""Of the way from the No-unlearn model to the threshold: up to here nothing was forgotten."""


class Outcome(StrEnum):
    """What a sweep found."""

    GOOD = "good trade-off"
    NOTHING_FORGOTTEN = "nothing was forgotten"
    TOO_LITTLE = "too little was forgotten"
    LOST = "everything was lost"
    TOO_MUCH = "too much was lost"
    NO_TRADE_OFF = "no good trade-off"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a model must meet; ``stated`` are those of them that a user stated, the others are the paper's.

    ``baseline_of`` gives the metrics of the No-unlearn model from which a row of a table of models started.
    """

    all: tuple[Constraint, ...]
    stated: tuple[Constraint, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]

    def of(self, name: str) -> tuple[Constraint, ...]:
        """Those on one column."""
        return tuple(item for item in self.all if item.name == name)

    def verdicts(self, row: pd.Series) -> dict[Constraint, bool | None]:
        """Of each threshold whether the row meets it; None where it or the baseline was not measured."""
        before = self.baseline_of(row)
        return {item: item.met(finite_cell(row, item.name), before.get(item.name)) for item in self.all}

    def met(self, row: pd.Series) -> bool | None:
        """Whether all are met; None where one cannot be judged and none is missed, or there is none."""
        found = self.verdicts(row).values()
        return False if False in found else None if None in found or not found else True

    def good(self, row: pd.Series) -> bool:
        """Whether all that can be judged are met, and one at least can."""
        found = set(self.verdicts(row).values())
        return True in found and False not in found

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
    """

    outcome: Outcome
    place: int | None
    decisive: tuple[Constraint, float] | None
    judged: int

    @property
    def recommended(self) -> bool:
        """Whether the row is one to take, as far as anybody can say."""
        return self.outcome in (Outcome.GOOD, Outcome.NOT_JUDGED)


def thresholds_of(sweep: SweepFile) -> Thresholds:
    """The thresholds in force: those stated, and the paper's for a set about which none is."""
    columns, stated = sweep.columns, tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    told = {columns[item.name].of for item in stated}
    papers = tuple(item for name, item in columns.thresholds.items() if columns[name].of not in told)
    return Thresholds((*stated, *papers), stated, sweep.baseline_of)


def judge(rows: pd.DataFrame, thresholds: Thresholds, columns: Columns, objectives: Sequence[Objective]) -> Judgement:
    """Hold every row, one finished model each, against the thresholds.

    Of good ones that of which most was measured is taken, then the one nearest to the ideal corner of the objectives.
    Where there is none, the closest has the least sum of what it misses, each in bounds and at most 1.
    """
    distance = _distance(rows, objectives)
    found = [thresholds.verdicts(row) for _, row in rows.iterrows()]
    judged = [place for place, verdicts in enumerate(found) if set(verdicts.values()) - {None}]
    if not judged:
        place = int(np.argmin(distance)) if len(rows) and np.isfinite(distance).any() else None
        return _by_objectives(rows, place, thresholds, columns, objectives)
    good = [place for place in judged if False not in found[place].values()]
    if good:
        unmeasured = {place: list(found[place].values()).count(None) for place in good}
        return Judgement(
            Outcome.GOOD, min(good, key=lambda place: (unmeasured[place], distance[place])), None, len(judged)
        )
    missed = {place: _missed(rows.iloc[place], thresholds, columns) for place in judged}
    closest = min(judged, key=lambda place: (sum(missed[place].values()), distance[place]))
    outcome, decisive = _outcome(rows, missed, thresholds, columns)
    return Judgement(outcome, closest, decisive, len(judged))


def _by_objectives(
    rows: pd.DataFrame, place: int | None, thresholds: Thresholds, columns: Columns, objectives: Sequence[Objective]
) -> Judgement:
    """No threshold can be judged: at least no row may be recommended where the forget set's objective never moved."""
    forgetting = [item for item in objectives if columns[item.column].of == "forget"]
    for item in forgetting if place is not None else ():
        values = numbers(rows, item.column)
        best = float(values.max() if item.direction == "max" else values.min())
        before = [thresholds.baseline_of(row).get(item.column) for _, row in rows.iterrows()]
        moved = [
            start is None or float(item.oriented(value)) < float(item.oriented(start))
            for start, value in zip(before, values, strict=True)
        ]
        if not any(moved):
            sign, start = (">", max) if item.direction == "max" else ("<", min)
            bar = Constraint(item.column, sign, start(value for value in before if value is not None))
            return Judgement(Outcome.NOTHING_FORGOTTEN, place, (bar, best), judged=len(rows))
    return Judgement(Outcome.NOT_JUDGED, place, None, 0)


def _outcome(
    rows: pd.DataFrame,
    missed: Mapping[int, Mapping[Constraint, float]],
    thresholds: Thresholds,
    columns: Columns,
) -> tuple[Outcome, tuple[Constraint, float] | None]:
    """What all rows have in common: they forget too little, lose too much, or do either."""
    forgets, keeps = (
        {place: sum(by for item, by in found.items() if _asks_for(item, columns) == what) for place, found in
         missed.items()}
        for what in ("forgetting", "keeping")
    )  # fmt: skip
    kept = [place for place in missed if forgets[place] > 0 and not keeps[place]]
    lost = [place for place in missed if keeps[place] > 0 and not forgets[place]]
    both = [place for place in missed if keeps[place] > 0 and forgets[place] > 0]
    if kept and not lost and not any(forgets[place] < min(forgets[other] for other in kept) for place in both):
        return _named(rows, kept, missed, thresholds, columns, "forgetting")
    if lost and not kept and not any(keeps[place] < min(keeps[other] for other in lost) for place in both):
        return _named(rows, lost, missed, thresholds, columns, "keeping")
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
    asked = [item for item in thresholds.all if _asks_for(item, columns) == what]
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
    if what == "forgetting":
        hardly = all(
            before is not None and before != bound and (before - value) / (before - bound) <= _HARDLY
            for value, before, bound in found
        )
        return (Outcome.NOTHING_FORGOTTEN if hardly else Outcome.TOO_LITTLE), decisive
    ruined = all(value < bound / 2 if item.sign.startswith(">") else value > 2 * bound for value, _, bound in found)
    return (Outcome.LOST if ruined else Outcome.TOO_MUCH), decisive


def _missed(row: pd.Series, thresholds: Thresholds, columns: Columns) -> dict[Constraint, float]:
    """How far the row is from each threshold that it misses: ``x / (1 + x)`` of x bounds (ranges for a bound of 0)."""
    found, baseline = {}, thresholds.baseline_of(row)
    for item in thresholds.all:
        by = item.violation(finite_cell(row, item.name), baseline.get(item.name))
        if by is not None and by > 0:
            before = baseline.get(item.name, 0.0) if item.relative else 1.0
            low, high = columns[item.name].bounds
            scale = abs(item.bound * before) or (high - low if low is not None and high is not None else 1.0)
            found[item] = max(by / (by + scale), math.ulp(0.0))
    return found


def _asks_for(item: Constraint, columns: Columns) -> str:
    """``forgetting`` or ``keeping``, by the set the column is about and the way the bound points; else ""."""
    column = columns[item.name]
    if column.of not in ("forget", "retain") or column.direction is None:
        return ""
    along = item.sign.startswith(">") == (column.direction == "max")
    return "forgetting" if along == (column.of == "forget") else "keeping"


def _distance(rows: pd.DataFrame, objectives: Sequence[Objective]) -> Floats:
    """From the ideal corner, per row; infinite where an objective is missing."""
    distance = np.full(len(rows), np.inf)
    if objectives and len(rows):
        values = values_of(rows, objectives)
        there = measured(values)
        distance[there] = np.linalg.norm(costs_of(values[there], objectives), axis=1)
    return distance
