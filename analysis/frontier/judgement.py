"""Whether any model of a sweep is worth taking: all of them held against the thresholds, before one is recommended.

A model is judged by what was measured of it, and what was not is named. A good one has forgotten something and kept
something. Console, page, ``pick`` and MLflow all say what is found here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from analysis.frontier.selection import Selection, repeats, repetition_of, select
from analysis.frontier.thresholds import FORGETTING, KEEPING, SIDES, Thresholds, asks_for, judged_of
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Objective, costs_of, measured, values_of
from analysis.tables.trial_table import finite_cell, numbers
from search_spaces.constraint import Constraint

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
    MISSED = "a threshold was missed"
    ONE_SIDED = "one side is not known"
    NOT_ASKED = "a threshold stated is not known"
    NOT_JUDGED = "not judged"
    REPETITIVE = "answers repeat themselves"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rows of a table of models come to.

    Attributes:
        outcome: what was found.
        place: the position of the row to take or, where none is good, of the one that comes closest; None without rows.
        decisive: where the outcome is about one threshold, that threshold, and the value that comes closest to it.
        judged: how many rows could be judged.
        unknown: the side of which nothing is known, where the outcome is that.
        near: whether, where models miss either side, some forget enough and some keep enough.
        selection: how the row was selected among those that are acceptable; None if none is.
    """

    outcome: Outcome
    place: int | None
    decisive: tuple[Constraint, float] | None
    judged: int
    unknown: str = ""
    near: bool = False
    selection: Selection | None = None

    @property
    def recommended(self) -> bool:
        """Whether the row is one to take, as far as anybody can say."""
        return self.outcome in (Outcome.GOOD, Outcome.NOT_JUDGED)


def judge(rows: pd.DataFrame, thresholds: Thresholds, columns: Columns, objectives: Sequence[Objective]) -> Judgement:
    """Hold every row, one finished model each, against the thresholds.

    :func:`~analysis.frontier.selection.select` takes one of the good ones. If none is good, the closest has the
    smallest sum of what it misses, each in bounds and at most 1.
    """
    distance = _distance(rows, objectives)
    found = [thresholds.held(row) for _, row in rows.iterrows()]
    own = {*thresholds.all, *thresholds.aside}
    judged = [place for place, verdicts in enumerate(found) if own & judged_of(verdicts)]
    # Without any threshold that can be judged, what stands in is asked alone.
    asked = judged or [place for place in range(len(rows)) if np.isfinite(distance[place][0])]
    if not asked:
        return Judgement(Outcome.NOT_JUDGED, None, None, 0)
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
        return Judgement(Outcome.REPETITIVE, calmest, None, len(acceptable))
    if chosen is not None:
        best = chosen.place
        if good:
            return Judgement(Outcome.GOOD, best, None, len(judged), selection=chosen)
        if one_sided:
            if unknown := [side for side in SIDES if side not in sides[best]]:
                return Judgement(Outcome.ONE_SIDED, best, None, len(judged), unknown[0])
            return Judgement(Outcome.NOT_ASKED, best, None, len(judged))
        if hidden[best]:
            return Judgement(Outcome.ONE_SIDED, best, None, len(asked), hidden[best][0])
        return Judgement(Outcome.NOT_JUDGED, best, None, 0, selection=chosen)
    missed = {place: _missed(rows.iloc[place], thresholds, columns) for place in asked}
    closest = min(asked, key=lambda place: (sum(missed[place].values()), *distance[place]))
    outcome, decisive, near = _outcome(rows, missed, thresholds, columns)
    return Judgement(outcome, closest, decisive, len(asked), near=near)


def _outcome(
    rows: pd.DataFrame,
    missed: Mapping[int, Mapping[Constraint, float]],
    thresholds: Thresholds,
    columns: Columns,
) -> tuple[Outcome, tuple[Constraint, float] | None, bool]:
    """What all rows have in common: they forget too little, lose too much, or do either; and whether some do one, some
    the other."""
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
    ruined = (columns.is_loss(item.name) and item not in thresholds.all) or all(
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


def _distance(rows: pd.DataFrame, objectives: Sequence[Objective]) -> list[tuple[float, float]]:
    """From the ideal corner, per row, within the bounds and by the sum of what was measured; infinite where an
    objective is missing."""
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
