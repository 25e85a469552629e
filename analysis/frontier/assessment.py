"""Assess one model: compare it with every threshold, and use its other scores if no threshold decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.thresholds import FORGETTING, KEEPING, SIDES, Thresholds, asks_for, stand_ins
from analysis.tables.columns import Columns
from analysis.tables.trial_table import finite_cell
from search_spaces.constraint import Constraint, all_met

REPETITION_MARGIN = 0.05
"""The allowed increase of the repetition score in retain answers over the target's; a model beyond it is not fluent."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of comparing a model with one threshold.

    Attributes:
        wanted: the threshold.
        value, target: the score of the model and of the target before unlearning; None if it was not measured.
        met: whether the threshold is met; None if it cannot be judged.
        source: ``stated`` (by a user), ``paper``, ``replaced`` (from the paper, but others are stated for the same set)
            or ``stand-in``.
        side: the side that the threshold is about, forgetting or keeping; "" if neither.
    """

    wanted: Constraint
    value: float | None
    target: float | None
    met: bool | None
    source: str
    side: str

    @property
    def reason(self) -> str:
        """Why the threshold cannot be judged: ``unmeasured``, ``no target value`` or ``target is 0``; otherwise ""."""
        if self.met is not None:
            return ""
        return "unmeasured" if self.value is None else "no target value" if self.target is None else "target is 0"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence about a side that no threshold decides; ``least`` and ``proof`` are None if there is no stand-in."""

    side: str
    least: Check | None = None
    proof: Check | None = None
    by_loss: bool = True

    @property
    def is_shown(self) -> bool:
        """Whether the stand-in decides the side: the model misses ``least``, or meets ``proof``."""
        return self.least is not None and self.proof is not None and (self.least.met is False or bool(self.proof.met))


@dataclass(frozen=True, slots=True)
class Assessment:
    """The assessment of one model.

    Attributes:
        checks: the results for every threshold that applies.
        replaced: the results for thresholds of the paper that the model misses, but that stated thresholds replace.
        evidence: the evidence about each side that no threshold decides.
        keeps_nothing: whether the target has nothing to keep, by every measure.
        repetition, target_repetition, forget_repetition: the largest repetition score in the model's retain answers, in
            the target's retain answers, and in the model's forget answers, in [0, 1]; infinite if unknown.
        repeats: whether retain answers are more repetitive than the target's by more than the margin; None if unknown.
        unchecked_repetition: whether the answers of a language model were not checked for repetition.
    """

    checks: tuple[Check, ...]
    replaced: tuple[Check, ...]
    evidence: tuple[Evidence, ...]
    keeps_nothing: bool
    repetition: float
    target_repetition: float
    forget_repetition: float
    repeats: bool | None
    unchecked_repetition: bool

    @property
    def held(self) -> tuple[Check, ...]:
        """The results for all thresholds, and for the stand-ins that can be judged."""
        return (*self.checks, *(item.least for item in self.evidence if item.least and item.least.met is not None))

    @property
    def met(self) -> bool | None:
        """Whether all thresholds are met; None if there are none, or if one cannot be judged and no other is missed."""
        return all_met(check.met for check in self.checks)

    @property
    def decided(self) -> tuple[str, ...]:
        """The sides that are decided by a threshold."""
        return tuple(side for side in SIDES if side not in {item.side for item in self.evidence})

    @property
    def unknown(self) -> tuple[str, ...]:
        """The sides about which nothing is known."""
        return tuple(item.side for item in self.evidence if not item.is_shown)

    @property
    def not_shown(self) -> tuple[str, ...]:
        """The unknown sides that have a metric other than a loss as a stand-in."""
        return tuple(item.side for item in self.evidence if not item.is_shown and not item.by_loss)

    @property
    def unknowns(self) -> tuple[int, int, bool]:
        """The number of unknown sides, the number of thresholds not judged, and whether repetition is unknown."""
        return len(self.not_shown), [check.met for check in self.held].count(None), self.repeats is None

    @property
    def is_good(self) -> bool:
        """Whether the model is good: no threshold is missed, all stated thresholds can be judged, both sides are known,
        and a threshold decides at least one side."""
        stated = all(check.met is not None for check in self.checks if check.source == "stated")
        missed = any(check.met is False for check in self.held)
        return stated and not missed and not self.unknown and bool(self.decided)

    @property
    def already_met(self) -> tuple[Check, ...]:
        """The thresholds on forgetting that both model and target meet, if no threshold decides forgetting."""
        asked = (check for check in self.checks if check.side == FORGETTING and FORGETTING not in self.decided)
        return tuple(check for check in asked if check.met and check.wanted.met(check.target, check.target))

    def of(self, source: str, met: bool | None) -> tuple[Check, ...]:
        """Return the checks with this source and this result."""
        return tuple(check for check in self.checks if check.source == source and check.met is met)

    def not_judged(self, reason: str) -> tuple[str, ...]:
        """Return the columns whose thresholds cannot be judged for this reason."""
        return tuple(dict.fromkeys(check.wanted.name for check in self.checks if check.reason == reason))

    def about(self, side: str) -> Evidence:
        """Return the evidence about a side; empty evidence if a threshold decides it."""
        return next((item for item in self.evidence if item.side == side), Evidence(side))


def assess(row: pd.Series, thresholds: Thresholds) -> Assessment:
    """Compare one model (a row of a table of models) with every threshold."""
    target, columns = thresholds.baseline_of(row), thresholds.columns

    def check(item: Constraint, source: str) -> Check:
        value, before = finite_cell(row, item.name), target.get(item.name)
        return Check(item, value, before, item.met(value, before), source, asks_for(item, columns))

    checks = [check(item, "stated" if item in thresholds.stated else "paper") for item in thresholds.all]
    judged = {columns[item.wanted.name].of for item in checks if item.source == "stated" and item.met is not None}
    aside = {item: columns[item.name].of in judged for item in thresholds.aside}
    checks += [check(item, "paper") for item, is_replaced in aside.items() if not is_replaced]
    replaced = [check(item, "replaced") for item, is_replaced in aside.items() if is_replaced]
    instead = stand_ins(row, target, columns)
    evidence = [
        Evidence(side)
        if (item := instead.get(side)) is None
        else Evidence(
            side, check(item.least, "stand-in"), check(item.proof, "stand-in"), columns.is_loss(item.least.name)
        )
        for side in SIDES
        if not any(_decides(item, side, thresholds) for item in checks)
    ]
    repetition = columns.repetition("retain")
    measured = {name: value for name in repetition if (value := finite_cell(row, name)) is not None}
    changes = [value - target[name] for name, value in measured.items() if name in target]
    is_language = any(columns.is_loss(name) and "token" in columns[name].unit for name in columns.entries)
    kept = [item for item in checks if item.side == KEEPING and item.wanted.relative and item.wanted in thresholds.all]
    shares = [item.target for item in kept if item.value is not None and item.target is not None]
    return Assessment(
        checks=tuple(checks),
        replaced=tuple(item for item in replaced if item.met is False),
        evidence=tuple(evidence),
        keeps_nothing=bool(shares) and not any(shares) and KEEPING not in instead,
        repetition=_repetition(row, columns, "retain"),
        target_repetition=_repetition(target, columns, "retain"),
        forget_repetition=_repetition(row, columns, "forget"),
        repeats=max(changes) > REPETITION_MARGIN if changes else None,
        unchecked_repetition=is_language and bool(repetition) and not measured,
    )


def _repetition(scores: Mapping[str, float] | pd.Series, columns: Columns, of: str) -> float:
    found = [float(scores[name]) for name in columns.repetition(of) if name in scores]
    return max(filter(np.isfinite, found), default=np.inf)


def _decides(check: Check, side: str, thresholds: Thresholds) -> bool:
    """Return whether a check decides a side: it can be judged, and it is stated or about a primary metric. A threshold
    that the target already meets cannot show forgetting."""
    if check.met is None or check.side != side:
        return False
    counts = check.source == "stated" or thresholds.columns[check.wanted.name].primary
    return counts and (side == KEEPING or check.wanted.met(check.target, check.target) is not True)
