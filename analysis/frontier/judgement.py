"""Whether any model of a sweep is worth taking: every model is held against the thresholds before one is recommended.

A good model forgot something and kept something. Console, page, ``pick`` and MLflow all report this judgement.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.frontier.selection import Selection, repeats, repetition_of, select
from analysis.frontier.thresholds import FORGETTING, KEEPING, SIDES, Thresholds, asks_for, judged_of
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Objective, costs_of, measured, values_of
from analysis.tables.trial_table import finite_cell, numbers
from search_spaces.constraint import Constraint

_HARDLY = 0.25
"""Share of the way from the target's value to the threshold up to which nothing counts as forgotten."""


class Outcome(StrEnum):
    """What a sweep found."""

    GOOD = "good trade-off"
    NOTHING_FORGOTTEN = "nothing was forgotten"
    TOO_LITTLE = "too little was forgotten"
    LOST = "everything was lost"
    TOO_MUCH = "too much was lost"
    NO_TRADE_OFF = "no good trade-off"
    MISSED = "a threshold was missed"
    ONE_SIDED = "one side is not known"
    NOT_ASKED = "a threshold stated is not known"
    NOT_JUDGED = "not judged"
    REPETITIVE = "answers repeat themselves"


class Decisive(NamedTuple):
    """The threshold that an outcome is about.

    Attributes:
        wanted: the threshold.
        best: the value closest to it.
        uniform: whether all models have this value.
    """

    wanted: Constraint
    best: float
    uniform: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found in a table of models.

    Attributes:
        outcome: what was found.
        place: the position of the row to take or, if none is good, of the closest row; None without rows.
        considered, judged: the number of rows, and of those that could be judged.
        decisive: the threshold that the outcome is about; None if it is about several.
        unknown: the side about which nothing is known, if that is the outcome.
        near: if models miss either side: whether some forget enough and others keep enough.
        selection: how the row was selected among the acceptable ones; None if none is acceptable.
    """

    outcome: Outcome
    place: int | None
    considered: int
    judged: int
    decisive: Decisive | None = None
    unknown: str = ""
    near: bool = False
    selection: Selection | None = None

    @property
    def recommended(self) -> bool:
        """Whether the row is one to take, as far as it can be judged."""
        return self.outcome in (Outcome.GOOD, Outcome.NOT_JUDGED)

    @property
    def unjudged(self) -> int:
        """The number of rows that could not be judged."""
        return self.considered - self.judged


def judge(rows: pd.DataFrame, thresholds: Thresholds, columns: Columns, objectives: Sequence[Objective]) -> Judgement:
    """Hold every row, one finished model each, against the thresholds.

    :func:`~analysis.frontier.selection.select` takes one of the good models. If no model is good, the closest has the
    smallest sum of misses (:func:`_missed`).
    """
    count = len(rows)
    distance = _distance(rows, objectives)
    found = [thresholds.held(row) for _, row in rows.iterrows()]
    own = {*thresholds.all, *thresholds.aside}
    judged = [place for place, verdicts in enumerate(found) if own & judged_of(verdicts)]
    # If no threshold can be judged, only the stand-ins are.
    asked = judged or [place for place in range(len(rows)) if np.isfinite(distance[place][0])]
    if not asked:
        return Judgement(Outcome.NOT_JUDGED, None, count, 0)
    passed = [place for place in asked if False not in found[place].values()]
    sides = {place: thresholds.sides(rows.iloc[place]) for place in passed}
    good = [place for place in passed if thresholds.good(rows.iloc[place])]
    one_sided = [place for place in passed if any(sides[place].values())]
    unmeasured = {place: list(found[place].values()).count(None) for place in passed}
    hidden = {place: thresholds.not_shown(rows.iloc[place]) for place in passed}
    acceptable = good or one_sided or passed
    chosen = select(
        rows,
        acceptable,
        preference=lambda place: (
            len(hidden[place]),
            unmeasured[place],
            repeats(rows.iloc[place], columns, thresholds.baseline_of) is None,
        ),
        distance=distance,
        objectives=objectives,
        columns=columns,
        baseline_of=thresholds.baseline_of,
    )
    if acceptable and chosen is None:
        repetition = {place: repetition_of(rows.iloc[place], columns, "retain") for place in acceptable}
        calmest = min(acceptable, key=lambda place: (repetition[place], distance[place]))
        return Judgement(Outcome.REPETITIVE, calmest, count, len(acceptable))
    if chosen is not None:
        best = chosen.place
        if good:
            return Judgement(Outcome.GOOD, best, count, len(judged), selection=chosen)
        if one_sided:
            if unknown := [side for side in SIDES if side not in sides[best]]:
                return Judgement(Outcome.ONE_SIDED, best, count, len(judged), unknown=unknown[0])
            return Judgement(Outcome.NOT_ASKED, best, count, len(judged))
        if hidden[best]:
            return Judgement(Outcome.ONE_SIDED, best, count, len(asked), unknown=hidden[best][0])
        return Judgement(Outcome.NOT_JUDGED, best, count, 0, selection=chosen)
    missed = {place: _missed(rows.iloc[place], thresholds, columns) for place in asked}
    closest = min(asked, key=lambda place: (sum(missed[place].values()), *distance[place]))
    outcome, decisive, near = _outcome(rows, missed, thresholds, columns)
    return Judgement(outcome, closest, count, len(asked), decisive, near=near)


def _outcome(
    rows: pd.DataFrame,
    missed: Mapping[int, Mapping[Constraint, float]],
    thresholds: Thresholds,
    columns: Columns,
) -> tuple[Outcome, Decisive | None, bool]:
    """Return what all rows have in common (they forget too little, lose too much, or either), and whether there are
    both kinds."""
    forgets, keeps = (
        {place: sum(by for item, by in found.items() if asks_for(item, columns) == what) for place, found in
         missed.items()}
        for what in SIDES
    )  # fmt: skip
    aside = [place for place in missed if not forgets[place] and not keeps[place]]
    if aside:
        return *_missed_beside(rows, aside, missed), False
    kept = [place for place in missed if forgets[place] > 0 and not keeps[place]]
    lost = [place for place in missed if keeps[place] > 0 and not forgets[place]]
    both = [place for place in missed if keeps[place] > 0 and forgets[place] > 0]
    if kept and not lost and not any(forgets[place] < min(forgets[other] for other in kept) for place in both):
        return *_named(rows, kept, missed, thresholds, columns, FORGETTING), False
    if lost and not kept and not any(keeps[place] < min(keeps[other] for other in lost) for place in both):
        return *_named(rows, lost, missed, thresholds, columns, KEEPING), False
    return Outcome.NO_TRADE_OFF, None, bool(kept and lost)


def _named(
    rows: pd.DataFrame,
    places: Sequence[int],
    missed: Mapping[int, Mapping[Constraint, float]],
    thresholds: Thresholds,
    columns: Columns,
    what: str,
) -> tuple[Outcome, Decisive | None]:
    """Return the outcome and the threshold that most of the rows miss, if all miss it."""
    every = dict.fromkeys([*thresholds.all, *(item for found in missed.values() for item in found)])
    asked = [item for item in every if asks_for(item, columns) == what]
    item = max(asked, key=lambda item: sum(item in missed[place] for place in places))
    judged = rows.iloc[list(missed)]
    judged = judged[numbers(judged, item.name).notna()]
    values = numbers(judged, item.name)
    decisive = _decisive(rows, item, values) if all(item in missed[place] for place in places) else None
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
    # A model misses the loss's stand-in only if it keeps nothing.
    ruined = (columns.is_loss(item.name) and item not in thresholds.all) or all(
        value < bound / 2 if item.sign.startswith(">") else value > 2 * bound for value, _, bound in found
    )
    return (Outcome.LOST if ruined else Outcome.TOO_MUCH), decisive


def _missed_beside(
    rows: pd.DataFrame, places: Sequence[int], missed: Mapping[int, Mapping[Constraint, float]]
) -> tuple[Outcome, Decisive]:
    """For rows that forget and keep enough: the threshold on neither side that most of them miss."""
    counts = Counter(item for place in places for item in missed[place])
    item = counts.most_common(1)[0][0]
    return Outcome.MISSED, _decisive(rows, item, numbers(rows.iloc[list(places)], item.name).dropna())


def _decisive(rows: pd.DataFrame, item: Constraint, values: pd.Series) -> Decisive:
    best = float(values.max() if item.sign.startswith(">") else values.min())
    return Decisive(item, best, uniform=numbers(rows, item.name).nunique() == 1)


def _missed(row: pd.Series, thresholds: Thresholds, columns: Columns) -> dict[Constraint, float]:
    """How far the row is from each threshold that it misses: ``x / (1 + x)``, with x the share of the way to the worst
    value.

    The worst value is the target's if something is to be forgotten, and the far bound if it is to be kept. If that is
    unknown, x is in units of the bound, or of the range for a bound of 0.
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


def _distance(rows: pd.DataFrame, objectives: Sequence[Objective]) -> list[tuple[float, float]]:
    """Return per row the distance from the ideal corner within the bounds, and the sum of the oriented objectives to
    break ties beyond them; infinite if an objective is missing."""
    found = [(math.inf, math.inf)] * len(rows)
    if objectives and len(rows):
        values = values_of(rows, objectives)
        there = np.flatnonzero(measured(values))
        within = np.linalg.norm(costs_of(values[there], objectives), axis=1)
        widths = [item.high - item.low for item in objectives]
        beyond = sum(item.oriented(values[there, k]) / widths[k] for k, item in enumerate(objectives))
        for place, near, total in zip(there, within, np.broadcast_to(beyond, within.shape), strict=True):
            found[place] = (float(near), float(total))
    return found
