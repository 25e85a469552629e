"""Determine the thresholds of a sweep, and compare the scores of a model with them.

The user states thresholds with ``--constraint``. A threshold from the paper applies if the user stated no threshold for
the same data set (forget set or retain set).

- A model has two requirements, which are called *sides*: it must forget enough of the forget set (*forgetting*) and
  keep enough of the retain set (*keeping*).
- A threshold *decides* a side if it shows whether a model forgot (or kept) enough. The threshold must be stated by the
  user or apply to a primary metric. A threshold on forgetting decides nothing if the target already meets it.
- If no threshold decides a side, a primary metric or a loss replaces the threshold. This score is the *stand-in* for
  the side, and has two bounds.
- A model that misses the bound ``least`` forgot (or kept) too little.
- A model that meets the bound ``proof`` forgot (or kept) enough.
- Between the two bounds, it is unknown whether a model forgot (or kept) enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import pandas as pd

from analysis.frontier.frontier import LEAST_GAIN
from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import finite_cell
from search_spaces.constraint import Constraint, all_met, parse_constraint

NEAR_GUESS = 0.75
"""A model keeps nothing if its retain loss is at least this fraction of the loss of a random guess."""
_LOSS_PROOF = 0.1
"""The bound ``proof`` of a loss, on a scale from 0 (the target's loss) to 1 (the loss of a random guess)."""
_FORGET_SHARES, _RETAIN_SHARES = (0.95, 0.5), (0.7, 0.7)
"""The bounds of stand-in metrics, as fractions of the target's score.

On the forget set, ``least`` is 0.95 and ``proof`` is 0.5. On the retain set, both bounds are 0.7, as in the paper.
"""
FORGETTING, KEEPING = "forgetting", "keeping"
SIDES = (FORGETTING, KEEPING)
_DATA_SET = {FORGETTING: "forget", KEEPING: "retain"}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds that apply to the models of a sweep.

    Attributes:
        all: the thresholds that the user stated, followed by the thresholds from the paper that apply.
        stated: the thresholds that the user stated.
        baseline_of: function that takes the row of a model and returns the metrics of the model's target.
    """

    all: tuple[Constraint, ...]
    stated: tuple[Constraint, ...]
    baseline_of: Callable[[pd.Series], Mapping[str, float]]
    columns: Columns = field(default_factory=Columns)

    def of(self, name: str) -> tuple[Constraint, ...]:
        return tuple(item for item in self.all if item.name == name)


def thresholds_of(sweep: SweepFile) -> Thresholds:
    columns, stated = sweep.columns, tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    stated_sets = {columns[item.name].of for item in stated}
    # The paper's thresholds do not apply to the metrics of image classifiers.
    files = (sweep, *sweep.files.values())
    measured = {name for file in files for scores in (file.baseline, *file.baselines.values()) for name in scores}
    unlimited = {name for name, item in columns.entries.items() if item.primary and item.threshold is None}
    has_paper_scores = bool(measured & columns.thresholds.keys())
    has_other_scores = bool(measured & unlimited)
    paper_thresholds = columns.thresholds if has_paper_scores or not has_other_scores else {}
    # The data of a sweep may lack the questions or answers that a metric needs, so its target has no score.
    added = (
        item
        for name, item in paper_thresholds.items()
        if columns[name].of not in stated_sets and (columns[name].primary or name in measured)
    )
    return Thresholds((*stated, *added), stated, sweep.baseline_of, columns)


def side_of(threshold: Constraint, columns: Columns) -> str:
    """Return the side to which a threshold belongs: ``forgetting``, ``keeping``, or "" for neither side."""
    column = columns[threshold.name]
    if column.of not in _DATA_SET.values() or column.direction is None:
        return ""
    wants_better = threshold.sign.startswith(">") == (column.direction == "max")
    return FORGETTING if wants_better == (column.of == _DATA_SET[FORGETTING]) else KEEPING


def stand_ins(
    row: pd.Series, target: Mapping[str, float], columns: Columns
) -> dict[str, tuple[Constraint, Constraint]]:
    """Return the bounds (``least``, ``proof``) of each side's stand-in, keyed by side.

    A primary metric is preferred to a loss. A side without a suitable measured score is left out. The retain loss is
    not suitable if already the target's retain loss is near the loss of a random guess (:data:`NEAR_GUESS`).
    """
    bounds: dict[str, tuple[Constraint, Constraint]] = {}
    for name, column in columns.entries.items():
        if column.primary and column.threshold is None and finite_cell(row, name) is not None and target.get(name):
            side = KEEPING if column.of == _DATA_SET[KEEPING] else FORGETTING
            bounds.setdefault(side, _metric_bounds(name, side, rises=column.direction == "max"))
    for name in filter(columns.is_loss, columns.entries):
        target_loss, guess = target.get(name), columns[name].bounds[1]
        start = target_loss or 0.0
        proof_bound = _rounded(start + _LOSS_PROOF * max((guess or 0.0) - start, 0.0))
        if columns[name].of == _DATA_SET[FORGETTING] and target_loss is not None:
            least = Constraint(name, ">", _rounded(target_loss + LEAST_GAIN * (guess or 0.0)))
            proof = least if guess is None else Constraint(name, ">=", proof_bound)
            bounds.setdefault(FORGETTING, (least, proof))
        if columns[name].of == _DATA_SET[KEEPING] and guess is not None and start < NEAR_GUESS * guess:
            least = Constraint(name, "<", _rounded(NEAR_GUESS * guess))
            bounds.setdefault(KEEPING, (least, Constraint(name, "<=", proof_bound)))
    return bounds


def _metric_bounds(name: str, side: str, *, rises: bool) -> tuple[Constraint, Constraint]:
    least, proof = _RETAIN_SHARES if side == KEEPING else _FORGET_SHARES
    # If smaller values mean keeping, or larger values mean forgetting, the inverse of the fraction is used.
    if rises != (side == KEEPING):
        least, proof = 1.0 / least, 1.0 / proof
    sign = ">=" if rises else "<="
    return Constraint(name, sign, least, relative=True), Constraint(name, sign, proof, relative=True)


def least_bound(name: str, columns: Columns) -> Constraint:
    """Return the bound ``least`` of a primary metric without a threshold, such as 95% of the target's value."""
    side = KEEPING if columns[name].of == _DATA_SET[KEEPING] else FORGETTING
    return _metric_bounds(name, side, rises=columns[name].direction == "max")[0]


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


REPETITION_MARGIN = 0.05
"""A model repeats itself if its retain answers' repetition score exceeds the target's score by more than this value."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of comparing a model with one threshold.

    Attributes:
        threshold: the threshold.
        value: the score of the model; None if not measured.
        target: the score of the target before unlearning; None if not measured.
        met: whether the model meets the threshold; None if unknown.
        source: where the threshold comes from: ``stated`` (by the user), ``paper`` or ``stand-in``.
        side: the side to which the threshold belongs (:func:`side_of`).
        miss: by how much the model misses the threshold, as ``x / (1 + x)`` in (0, 1); 0 if the model meets the
            threshold or the result is unknown. Here, ``x`` is the distance from the model's score to the threshold,
            divided by the distance from the worst score to the threshold. For a threshold on forgetting, the worst
            score is the target's score. For a threshold on keeping, the worst score is the worse bound of the column.
    """

    threshold: Constraint
    value: float | None
    target: float | None
    met: bool | None
    source: str
    side: str
    miss: float

    @property
    def reason(self) -> str:
        """Why ``met`` is None: ``unmeasured``, ``no target value`` or ``target is 0``; "" if ``met`` is not None."""
        if self.met is not None:
            return ""
        if self.value is None:
            return "unmeasured"
        return "no target value" if self.target is None else "target is 0"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The checks of a model against the stand-in for a side that no threshold decides.

    Attributes:
        least: the comparison with the stand-in's bound ``least``; None without a stand-in.
        proof: the comparison with the stand-in's bound ``proof``; None without a stand-in.
        by_loss: whether the stand-in is a loss; true without a stand-in.
    """

    side: str
    least: Check | None = None
    proof: Check | None = None
    _: KW_ONLY
    by_loss: bool = True

    @property
    def is_conclusive(self) -> bool:
        """Whether the stand-in gives a result: the model misses ``least`` (not enough) or meets ``proof`` (enough)."""
        return self.least is not None and self.proof is not None and (self.least.met is False or bool(self.proof.met))


@dataclass(frozen=True, slots=True)
class Assessment:
    """The comparison of one model with all thresholds.

    Attributes:
        checks: the result for each threshold.
        evidence: the checks against the stand-in for each side that no threshold decides.
        keeps_nothing: whether the thresholds on keeping are shares of the target's scores, all these scores are 0, and
            keeping has no stand-in.
        repetition: the largest repetition score of the model's answers on the retain set, in [0, 1]; infinite if
            unknown.
        target_repetition: the largest repetition score of the target's answers on the retain set.
        forget_repetition: the largest repetition score of the model's answers on the forget set.
        repeats: whether the model repeats itself (:data:`REPETITION_MARGIN`); None if unknown.
        unchecked_repetition: whether the model is a language model whose repetition was not measured.
    """

    checks: tuple[Check, ...]
    evidence: tuple[Evidence, ...]
    keeps_nothing: bool
    repetition: float
    target_repetition: float
    forget_repetition: float
    repeats: bool | None
    unchecked_repetition: bool

    @property
    def applied(self) -> tuple[Check, ...]:
        """The checks of all thresholds, then the checks of the stand-ins' bounds ``least`` that have a known result."""
        return (*self.checks, *(item.least for item in self.evidence if item.least and item.least.met is not None))

    @property
    def missed(self) -> tuple[Check, ...]:
        """The checks in :attr:`applied` whose threshold the model misses."""
        return tuple(check for check in self.applied if check.miss > 0)

    @property
    def met(self) -> bool | None:
        """Whether all thresholds are met; None if unknown, or if there are no thresholds."""
        return all_met(check.met for check in self.checks)

    @property
    def decided_sides(self) -> tuple[str, ...]:
        """The sides that a threshold decides."""
        return tuple(side for side in SIDES if side not in {item.side for item in self.evidence})

    @property
    def unknown_sides(self) -> tuple[str, ...]:
        """The sides for which neither a threshold nor a stand-in shows whether the model forgot (or kept) enough."""
        return tuple(item.side for item in self.evidence if not item.is_conclusive)

    @property
    def inconclusive_sides(self) -> tuple[str, ...]:
        """The sides in :attr:`unknown_sides` whose stand-in is not a loss."""
        return tuple(item.side for item in self.evidence if not item.is_conclusive and not item.by_loss)

    @property
    def unknowns(self) -> tuple[int, int, bool]:
        """A sort key: how many :attr:`inconclusive_sides` and unknown checks, and whether repetition is unknown."""
        return len(self.inconclusive_sides), [check.met for check in self.applied].count(None), self.repeats is None

    @property
    def is_good(self) -> bool:
        """Whether the model is good.

        A model is good if these conditions hold:

        - The model misses no threshold and no bound ``least``.
        - The result for every stated threshold is known.
        - A threshold decides at least one side.
        - No side is unknown (:attr:`unknown_sides`).
        """
        is_known = all(check.met is not None for check in self.checks if check.source == "stated")
        is_missed = any(check.met is False for check in self.applied)
        return is_known and not is_missed and not self.unknown_sides and bool(self.decided_sides)

    @property
    def already_met(self) -> tuple[Check, ...]:
        """The checks on forgetting that both model and target meet; () if a threshold decides forgetting."""
        checks = (check for check in self.checks if check.side == FORGETTING and FORGETTING not in self.decided_sides)
        return tuple(check for check in checks if check.met and check.threshold.met(check.target, check.target))

    def checks_from(self, source: str, met: bool | None) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.source == source and check.met is met)

    def unjudged_columns(self, reason: str) -> tuple[str, ...]:
        """Return the columns whose thresholds cannot be judged for the given :attr:`Check.reason`."""
        return tuple(dict.fromkeys(check.threshold.name for check in self.checks if check.reason == reason))

    def evidence_for(self, side: str) -> Evidence:
        """Return the checks against the stand-in for a side; without checks if a threshold decides the side."""
        return next((item for item in self.evidence if item.side == side), Evidence(side))


def assess(row: pd.Series, thresholds: Thresholds) -> Assessment:
    """Compare the scores of one model with every threshold."""
    target, columns = thresholds.baseline_of(row), thresholds.columns

    def check(item: Constraint, source: str) -> Check:
        value, baseline, side = finite_cell(row, item.name), target.get(item.name), side_of(item, columns)
        miss = _miss(item, value, baseline, side, columns)
        return Check(item, value, baseline, item.met(value, baseline), source, side, miss)

    checks = [check(item, "stated" if item in thresholds.stated else "paper") for item in thresholds.all]
    stand_in_bounds = stand_ins(row, target, columns)
    evidence = []
    for side in SIDES:
        if any(_decides(item, side, thresholds) for item in checks):
            continue
        if side not in stand_in_bounds:
            evidence.append(Evidence(side))
            continue
        least, proof = stand_in_bounds[side]
        by_loss = columns.is_loss(least.name)
        evidence.append(Evidence(side, check(least, "stand-in"), check(proof, "stand-in"), by_loss=by_loss))
    repetition = columns.repetition("retain")
    measured = {name: value for name in repetition if (value := finite_cell(row, name)) is not None}
    changes = [value - target[name] for name, value in measured.items() if name in target]
    is_language = any(columns.is_loss(name) and "token" in columns[name].unit for name in columns.entries)
    keeping_checks = [item for item in checks if item.side == KEEPING and item.threshold.relative]
    target_values = [item.target for item in keeping_checks if item.value is not None and item.target is not None]
    return Assessment(
        checks=tuple(checks),
        evidence=tuple(evidence),
        keeps_nothing=bool(target_values) and not any(target_values) and KEEPING not in stand_in_bounds,
        repetition=_repetition(row, columns, "retain"),
        target_repetition=_repetition(target, columns, "retain"),
        forget_repetition=_repetition(row, columns, "forget"),
        repeats=max(changes) > REPETITION_MARGIN if changes else None,
        unchecked_repetition=is_language and bool(repetition) and not measured,
    )


def _miss(threshold: Constraint, value: float | None, target: float | None, side: str, columns: Columns) -> float:
    excess = threshold.violation(value, target)
    if excess is None or excess <= 0:
        return 0.0
    bound = threshold.bound * (target or 0.0) if threshold.relative else threshold.bound
    low, high = columns[threshold.name].bounds
    worse_bound = low if threshold.sign.startswith(">") else high
    worst = {FORGETTING: target, KEEPING: worse_bound}.get(side)
    # Without a worst score, the scale is the bound of the threshold or, if this bound is 0, the score's range.
    scale = abs(bound - worst) if worst is not None else abs(bound)
    scale = scale or (high - low if low is not None and high is not None else 1.0)
    return max(excess / (excess + scale), math.ulp(0.0))


def _repetition(scores: Mapping[str, float] | pd.Series, columns: Columns, of: str) -> float:
    values = [float(scores[name]) for name in columns.repetition(of) if name in scores]
    return max(filter(np.isfinite, values), default=np.inf)


def _decides(check: Check, side: str, thresholds: Thresholds) -> bool:
    if check.met is None or check.side != side:
        return False
    is_relevant = check.source == "stated" or thresholds.columns[check.threshold.name].primary
    # A threshold that the target already meets does not decide forgetting.
    return is_relevant and (side == KEEPING or check.threshold.met(check.target, check.target) is not True)
