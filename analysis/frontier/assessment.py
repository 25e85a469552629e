"""What is known about one model: every threshold held against it, and what shows forgetting or keeping beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.selection import repetition_of
from analysis.frontier.thresholds import FORGETTING, SIDES, Thresholds, asks_for
from analysis.tables.trial_table import auto_lr_on, finite_cell, numbers
from search_spaces.constraint import Constraint


@dataclass(frozen=True, slots=True)
class Check:
    """One threshold held against a model.

    Attributes:
        wanted: the threshold.
        value, target: the score of the model and of the target before unlearning; None if it was not measured.
        met: None if it cannot be judged.
        source: ``stated`` by a user, ``paper``, or ``replaced``: the paper's, but others are stated for the same set.
    """

    wanted: Constraint
    value: float | None
    target: float | None
    met: bool | None
    source: str

    @property
    def reason(self) -> str:
        """Why it cannot be judged: ``unmeasured``, ``no target value`` or ``target is 0``; "" if it can."""
        if self.met is not None:
            return ""
        return "unmeasured" if self.value is None else "no target value" if self.target is None else "target is 0"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What another score than those of the thresholds shows about one side, forgetting or keeping.

    Attributes:
        least: the condition that a good model meets; None if no score tells about the side.
        proof: the condition that only a good model meets.
        value: the model's score; None if it was not measured.
        misses: whether the model misses ``least``.
        is_shown: whether either condition decides.
        by_loss: whether the score is a loss.
    """

    side: str
    least: Constraint | None = None
    proof: Constraint | None = None
    value: float | None = None
    misses: bool = False
    is_shown: bool = False
    by_loss: bool = True


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is known about one model.

    Attributes:
        checks: every threshold that applies, and those replaced that are missed.
        evidence: of each side that no threshold decides.
        already_met: thresholds on forgetting that the target meets, too, if no other threshold shows forgetting.
        repetition, target_repetition: the largest repetition score in retained answers, in [0, 1]; infinite if unknown.
        unchecked_repetition: whether a language model's answers were not checked for repetition.
        keeps_nothing: whether the target has nothing to keep, by every measure.
    """

    checks: tuple[Check, ...]
    evidence: tuple[Evidence, ...]
    already_met: tuple[Check, ...]
    repetition: float
    target_repetition: float
    unchecked_repetition: bool
    keeps_nothing: bool

    def of(self, source: str, met: bool | None) -> tuple[Check, ...]:
        """The checks of one source with one verdict."""
        return tuple(check for check in self.checks if check.source == source and check.met is met)

    def not_judged(self, reason: str) -> tuple[str, ...]:
        """The columns whose thresholds cannot be judged for a reason."""
        return tuple(dict.fromkeys(check.wanted.name for check in self.checks if check.reason == reason))

    def about(self, side: str) -> Evidence:
        """The evidence about a side."""
        return next((item for item in self.evidence if item.side == side), Evidence(side))


def assess(row: pd.Series, thresholds: Thresholds) -> Assessment:
    """Hold every threshold against one model."""
    baseline, verdicts, columns = thresholds.baseline_of(row), thresholds.verdicts(row), thresholds.columns

    def check(item: Constraint, source: str) -> Check:
        value, target = finite_cell(row, item.name), baseline.get(item.name)
        return Check(item, value, target, item.met(value, target), source)

    by_threshold = thresholds.sides(row).get(FORGETTING)
    applied = [check(item, "stated" if item in thresholds.stated else "paper") for item in verdicts]
    replaced = [check(item, "replaced") for item in thresholds.aside if item not in verdicts]
    repetition = columns.repetition("retain")
    is_language = any(columns.is_loss(name) and "token" in columns[name].unit for name in columns.entries)
    return Assessment(
        checks=(*applied, *(item for item in replaced if item.met is False)),
        evidence=tuple(_evidence(row, thresholds)),
        already_met=tuple(
            item
            for item in applied
            if item.met and not by_threshold and asks_for(item.wanted, columns) == FORGETTING
            if item.wanted.met(item.target, item.target)
        ),
        repetition=repetition_of(row, columns, "retain"),
        target_repetition=repetition_of(baseline, columns, "retain"),
        unchecked_repetition=is_language
        and bool(repetition)
        and all(finite_cell(row, name) is None for name in repetition),
        keeps_nothing=thresholds.keeps_nothing(row),
    )


def _evidence(row: pd.Series, thresholds: Thresholds) -> Iterator[Evidence]:
    sides, stand_ins, held = thresholds.sides(row), thresholds.stand_ins(row), thresholds.held(row)
    for side in SIDES:
        if sides.get(side):
            continue
        if (item := stand_ins.get(side)) is None:
            yield Evidence(side)
            continue
        yield Evidence(
            side,
            item.least,
            item.proof,
            finite_cell(row, item.least.name),
            misses=held.get(item.least) is False,
            is_shown=side in sides,
            by_loss=thresholds.columns.is_loss(item.least.name),
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """The settings of the models considered, from which advice starts; () and None for what no model has.

    ``diverged_lr`` is the lowest learning rate at which a trial diverged, if it is above all others.
    """

    epochs: tuple[float, ...]
    batch_sizes: tuple[float, ...]
    steps: float | None
    lr: tuple[float, float] | None
    c: tuple[float, float] | None
    diverged_lr: float | None
    auto_lr: bool


def tried(rows: pd.DataFrame, diverged: pd.DataFrame) -> Tried:
    """Summarize the settings of the models considered and of the trials that diverged."""

    def values(name: str) -> tuple[float, ...]:
        return tuple(sorted(set(numbers(rows, name).dropna())))

    def ends(name: str) -> tuple[float, float] | None:
        found = values(name)
        return (found[0], found[-1]) if found else None

    lowest, highest = numbers(diverged, "lr").min(), numbers(rows, "lr").max()
    return Tried(
        epochs=values("epochs"),
        batch_sizes=values("batch_size"),
        steps=max(values("steps"), default=None),
        lr=ends("lr"),
        c=ends("c"),
        diverged_lr=float(lowest) if np.isfinite(lowest) and lowest > highest else None,
        auto_lr=bool(auto_lr_on(rows).any()),
    )
