"""Judge the models of a sweep, and choose one of them. A good model forgot enough and kept enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.frontier.assessment import (
    FORGETTING,
    KEEPING,
    SIDES,
    Assessment,
    Check,
    Thresholds,
    assess,
    thresholds_of,
)
from analysis.frontier.frontier import selectable_models
from analysis.frontier.selection import Selection, select
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import costs_of, measured, values_of
from analysis.tables.trial_table import TrialTable, auto_lr_on, numbers
from search_spaces.common.objective import Objective
from search_spaces.constraint import Constraint


class Outcome(StrEnum):
    """The result of judging the models of a sweep."""

    GOOD = "good trade-off"
    TOO_LITTLE = "too little was forgotten"
    TOO_MUCH = "too much was lost"
    NO_TRADE_OFF = "no good trade-off"
    MISSED = "a threshold was missed"
    ONE_SIDED = "one side is not known"
    THRESHOLD_UNKNOWN = "a stated threshold cannot be judged"
    NOT_JUDGED = "not judged"
    REPETITIVE = "answers repeat themselves"


class Decisive(NamedTuple):
    """The threshold that explains an outcome.

    Attributes:
        best: the score that is nearest to meeting the threshold.
        uniform: whether all models have the same score.
    """

    threshold: Constraint
    best: float
    uniform: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of judging a table with one row per model.

    Attributes:
        position: the position of the chosen model's row; None if no model was judged and no model has all objectives.
        considered: the number of models in the table.
        judged: the number of models that were compared with at least one threshold or stand-in.
        decisive: the threshold that explains the outcome; None if no single threshold explains it.
        unknown_side: if the outcome is ``ONE_SIDED``, the side (``forgetting`` or ``keeping``) without a result;
            otherwise "".
        sides_met_apart: whether some models forget enough and others keep enough, but no model does both.
        selection: how the recommended model was selected; None if no model is recommended.
        assessment: the comparison of the chosen model with the thresholds; None without a chosen model.
    """

    outcome: Outcome
    position: int | None
    considered: int
    judged: int
    decisive: Decisive | None = None
    unknown_side: str = ""
    sides_met_apart: bool = False
    selection: Selection | None = None
    assessment: Assessment | None = None

    @property
    def recommended(self) -> bool:
        """Whether the chosen model is recommended: it is good, or no model can be compared with the thresholds."""
        return self.outcome in (Outcome.GOOD, Outcome.NOT_JUDGED)

    @property
    def unjudged(self) -> int:
        return self.considered - self.judged


@dataclass(frozen=True, slots=True, eq=False)
class ModelChoice:
    """The models of a sweep that can be selected (``rows``), the thresholds, and the judgement on the models."""

    rows: pd.DataFrame
    thresholds: Thresholds
    judgement: Judgement

    @property
    def row(self) -> pd.Series | None:
        """The row of the chosen model; None if no model was chosen."""
        return None if self.judgement.position is None else self.rows.iloc[self.judgement.position]


def choose_model(table: TrialTable, sweep: SweepFile) -> ModelChoice:
    """Judge every model that can be selected, and choose one. Rows of external tables are left out."""
    rows, thresholds = selectable_models(table.without_external, sweep).trials, thresholds_of(sweep)
    return ModelChoice(rows, thresholds, judge(rows, thresholds, sweep.objectives))


def judge(rows: pd.DataFrame, thresholds: Thresholds, objectives: Sequence[Objective]) -> Judgement:
    """Compare every row (one model) with the thresholds, and choose one row.

    If every model misses a threshold, the model with the smallest sum of :attr:`Check.miss` is chosen.
    """
    distance = _distance(rows, objectives)
    results = [assess(row, thresholds) for _, row in rows.iterrows()]
    checked = [i for i, item in enumerate(results) if any(check.met is not None for check in item.checks)]
    # If no threshold can be judged, only the stand-in scores are used.
    candidates = checked or [i for i in range(len(rows)) if np.isfinite(distance[i][0])]
    if not candidates:
        return Judgement(Outcome.NOT_JUDGED, None, len(rows), 0)
    passing = [i for i in candidates if all(check.met is not False for check in results[i].applied)]
    good_models = [i for i in passing if results[i].is_good]
    partly_decided = [i for i in passing if results[i].decided_sides]
    acceptable = good_models or partly_decided or passing
    if not passing:
        position = min(candidates, key=lambda i: (sum(check.miss for check in results[i].applied), *distance[i]))
        outcome, decisive, near = _outcome(rows, {i: results[i].missed for i in candidates}, thresholds)
        return Judgement(
            outcome, position, len(rows), len(candidates), decisive, sides_met_apart=near, assessment=results[position]
        )
    selection = select(rows, acceptable, results, distance, objectives, thresholds.columns)
    if selection is None:
        position = min(acceptable, key=lambda i: (results[i].repetition, distance[i]))
        return Judgement(Outcome.REPETITIVE, position, len(rows), len(candidates), assessment=results[position])
    position, best = selection.position, results[selection.position]
    with_outcome = partial(Judgement, position=position, considered=len(rows), assessment=best)
    if good_models:
        return with_outcome(Outcome.GOOD, judged=len(checked), selection=selection)
    unknown_sides = best.unknown_sides if partly_decided else best.inconclusive_sides
    if unknown_sides:
        return with_outcome(Outcome.ONE_SIDED, judged=len(candidates), unknown_side=unknown_sides[0])
    if partly_decided:
        return with_outcome(Outcome.THRESHOLD_UNKNOWN, judged=len(checked))
    return with_outcome(Outcome.NOT_JUDGED, judged=0, selection=selection)


def _outcome(
    rows: pd.DataFrame, missed: Mapping[int, Sequence[Check]], thresholds: Thresholds
) -> tuple[Outcome, Decisive | None, bool]:
    """Return ``outcome``, ``decisive`` and ``sides_met_apart`` for models that all miss at least one threshold."""
    missed_rows = rows.iloc[list(missed)]
    miss_by_side = {
        side: np.array([sum(check.miss for check in checks if check.side == side) for checks in missed.values()])
        for side in SIDES
    }
    forgets, keeps = miss_by_side[FORGETTING] == 0, miss_by_side[KEEPING] == 0
    meets_both_sides = forgets & keeps
    if meets_both_sides.any():
        # These models miss only thresholds that belong to neither side.
        other_checks = [checks for checks, is_met in zip(missed.values(), meets_both_sides, strict=True) if is_met]
        threshold = Counter(check.threshold for checks in other_checks for check in checks).most_common(1)[0][0]
        is_missed = np.array([any(check.threshold == threshold for check in checks) for checks in missed.values()])
        values = numbers(missed_rows[meets_both_sides & is_missed], threshold.name)
        return Outcome.MISSED, _decisive(rows, threshold, values), False
    if forgets.any() and keeps.any():
        return Outcome.NO_TRADE_OFF, None, True
    for side, meets_other, outcome in ((FORGETTING, keeps, Outcome.TOO_LITTLE), (KEEPING, forgets, Outcome.TOO_MUCH)):
        # If a model that misses the other side comes closest to this side, the sides conflict.
        miss = miss_by_side[side]
        if meets_other.any() and not (miss[~meets_other] < miss[meets_other].min()).any():
            side_checks = [checks for checks, is_met in zip(missed.values(), meets_other, strict=True) if is_met]
            counts = Counter(check.threshold for checks in side_checks for check in checks if check.side == side)
            order = [*thresholds.all, *counts]
            threshold = max(counts, key=lambda item: (counts[item], -order.index(item)))
            values = numbers(missed_rows, threshold.name).dropna()
            decisive = _decisive(rows, threshold, values) if counts[threshold] == len(side_checks) else None
            return outcome, decisive, False
    return Outcome.NO_TRADE_OFF, None, False


def _decisive(rows: pd.DataFrame, threshold: Constraint, values: pd.Series) -> Decisive:
    best = float(values.max() if threshold.sign.startswith(">") else values.min())
    return Decisive(threshold, best, uniform=numbers(rows, threshold.name).nunique() == 1)


def _distance(rows: pd.DataFrame, objectives: Sequence[Objective]) -> list[tuple[float, float]]:
    """Return a sort key for each row: the distance from the ideal corner, and the sum of the unclipped costs.

    Both numbers are infinite if an objective is missing.
    """
    keys = np.full((len(rows), 2), np.inf)
    if objectives and len(rows):
        values = values_of(rows, objectives)
        is_measured = measured(values)
        keys[is_measured, 0] = np.linalg.norm(costs_of(values[is_measured], objectives), axis=1)
        # The unclipped sum breaks ties between rows outside the bounds.
        keys[is_measured, 1] = sum(
            item.oriented(values[is_measured, k]) / (item.high - item.low) for k, item in enumerate(objectives)
        )
    return [(distance, total) for distance, total in keys.tolist()]


@dataclass(frozen=True, slots=True)
class TriedSettings:
    """The settings of the models that can be selected. Unknown settings are () or None.

    Attributes:
        epochs, batch_sizes: all values, in ascending order.
        steps: the largest number of steps.
        lr, c: the smallest and the largest value.
        diverged_lr: the lowest learning rate at which a trial diverged; None if no trial diverged, or if a model that
            can be selected was trained with this rate or a higher rate.
    """

    epochs: tuple[float, ...]
    batch_sizes: tuple[float, ...]
    steps: float | None
    lr: tuple[float, float] | None
    c: tuple[float, float] | None
    diverged_lr: float | None
    auto_lr: bool


def tried_settings(rows: pd.DataFrame, diverged: pd.DataFrame) -> TriedSettings:
    def values(name: str) -> tuple[float, ...]:
        return tuple(sorted(set(numbers(rows, name).dropna())))

    lr, c = values("lr"), values("c")
    lowest = numbers(diverged, "lr").min()
    return TriedSettings(
        epochs=values("epochs"),
        batch_sizes=values("batch_size"),
        steps=max(values("steps"), default=None),
        lr=(lr[0], lr[-1]) if lr else None,
        c=(c[0], c[-1]) if c else None,
        diverged_lr=float(lowest) if lr and lowest > lr[-1] else None,
        auto_lr=bool(auto_lr_on(rows).any()),
    )
