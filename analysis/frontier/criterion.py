"""The criterion of a good model: bounds on its scores, and the comparison of models with these bounds.

A criterion is a list of requirements. The criterion ``usable`` is described by the metrics themselves
(:attr:`analysis.tables.columns.Column.usable`), and its bounds follow from the scores of the target:

- The model tells the forgotten facts no more often than a model that never saw the forget set. Without such a model,
  the bound is a stated share of the target's score.
- At least a stated share of the retained facts that the target tells is kept.
- The answers to retained questions repeat themselves no more than the target's answers.

- *Preferred*: the answers to forget questions loop no more than the target's answers.

Each of these bounds allows for the sampling error of the questions (:func:`allowance`). The criterion ``paper`` has the
thresholds of the paper instead of the facts, and ``none`` has no requirement of its own. A threshold that the user
states replaces the requirement on the same column; otherwise, it is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Mask
from analysis.tables.trial_table import TrialTable, numbers
from search_spaces.constraint import Constraint, parse_constraint

USABLE, PAPER, STATED = "usable", "paper", "stated"
LEVEL_Z = 1.645
"""The quantile of the normal distribution for a one-sided confidence level of 95%."""
UNKNOWN_ITEMS = 64
"""The number of items that is assumed if a table does not state the number."""
FORGET_SHARE, KEEP_SHARE = 0.1, 0.9
"""The shares of the target's score for a primary metric that states neither a threshold nor its part in ``usable``."""
KNOWN_LOSS, NO_SCORE = 0.05, 0.05
"""A score is at fault if it is at most ``NO_SCORE`` although the target's loss is at most ``KNOWN_LOSS`` of a guess."""


class Role(StrEnum):
    """What a requirement is about. ``OTHER`` requirements are stated by the user, for example on a cost."""

    FORGET = "forget"
    KEEP = "keep"
    FLUENCY = "fluency"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TargetScores:
    """The scores of a target, of a model that never saw the forget set, and the number of items of each score."""

    values: Mapping[str, float] = field(default_factory=dict)
    never_saw: Mapping[str, float] = field(default_factory=dict)
    items: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A bound on one score.

    Attributes:
        limit: the bound. A relative bound is a share of the target's score.
        source: ``usable``, ``paper`` or ``stated`` (by the user).
        sampled: whether the bound allows for the sampling error of the items.
        reference: the column of the target's score; "" for the column of the limit.
        preferred: whether models that miss the bound can still be good, but are chosen only if all good models miss it.
        decisive: whether meeting the bound can show that a model forgot (or kept) enough. A threshold that the user
            adds to the criterion's own requirements cannot, and neither can one of the paper's on a metric that is not
            primary.
    """

    limit: Constraint
    role: Role
    source: str
    sampled: bool = False
    reference: str = ""
    preferred: bool = False
    decisive: bool = True

    @property
    def column(self) -> str:
        return self.limit.name

    def bound(self, target: TargetScores) -> Constraint | None:
        """Return the bound as a number; None if the target's score is unknown, or is 0 so that a share says nothing."""
        limit = self.limit
        bound = limit.bound
        never_saw = target.never_saw.get(self.column) if self.sampled and self.role is Role.FORGET else None
        if never_saw is not None:
            bound = never_saw
        elif limit.relative:
            before = target.values.get(self.reference or self.column)
            if before is None or (before == 0.0 and self.role is not Role.FLUENCY):
                return None
            bound *= before
        if self.sampled:
            error = allowance(bound, target.items.get(self.column, UNKNOWN_ITEMS))
            bound = min(bound + error, 1.0) if limit.sign == "<=" else max(bound - error, 0.0)
        return Constraint(self.column, limit.sign, bound)

    def shows_nothing(self, target: TargetScores) -> bool:
        """Return whether the requirement is on forgetting, but even the target meets the bound."""
        bound = self.bound(target) if self.role is Role.FORGET else None
        return bound is not None and bound.met(target.values.get(self.column)) is True


def allowance(share: float, items: float) -> float:
    """Return by how much the mean of ``items`` scores in [0, 1] may differ from ``share`` by chance.

    This is the one-sided 95% limit of a binomial share, which no other scores in [0, 1] exceed. Its variance is that of
    the share with two more successes and failures (Agresti and Coull, The American Statistician 52, 1998), so that it
    is above 0 for a share of 0.
    """
    centre = (items * share + 2.0) / (items + 4.0)
    return LEVEL_Z * math.sqrt(max(0.0, centre * (1.0 - centre)) / items)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of a model's score with a requirement.

    Attributes:
        value: the score of the model; None if it was not measured.
        target: the score of the target; None if it was not measured.
        bound: the bound as a number; None if it is unknown.
        met: whether the model meets the bound; None if unknown.
    """

    requirement: Requirement
    value: float | None
    target: float | None
    bound: Constraint | None
    met: bool | None


@dataclass(frozen=True, eq=False)
class Judged:
    """The comparison of n models with the r requirements of a criterion.

    Attributes:
        targets: the scores of each model's target, n entries.
        values: the scores of the models; NaN if not measured; shape (n, r).
        met: 1.0 if the model meets the bound, 0.0 if not, NaN if unknown; shape (n, r).
        miss: by how much the bound is missed, in [0, 1); 0 if it is met or unknown; shape (n, r). A miss is
            ``x / (1 + x)``, where x is the distance to the bound, divided by the distance from the worst score to the
            bound. The worst score is the target's for forgetting, and otherwise the worse bound of the column.
        decides: whether meeting the bound shows that the model forgot (or kept) enough; shape (n, r).
    """

    criterion: Criterion
    targets: Sequence[TargetScores]
    values: Floats
    met: Floats
    miss: Floats
    decides: Mask

    def of(self, *roles: Role) -> Mask:
        """Return a mask, shape (r,), of the requirements with these roles that are not merely preferred."""
        return self._marked(lambda item: item.role in roles and not item.preferred)

    @property
    def required(self) -> Mask:
        return self.of(*Role)

    @property
    def known(self) -> Mask:
        """A mask, shape (n,), of the models with a known result for a requirement of the criterion itself."""
        decisive = self._marked(lambda item: item.decisive)
        known: Mask = np.asarray(np.isfinite(self.met[:, self.required & decisive]).any(axis=1))
        return known

    def misses(self, *roles: Role) -> Mask:
        """Return a mask, shape (n,), of the models that miss a requirement with one of these roles."""
        missed: Mask = (self.met[:, self.of(*roles)] == 0.0).any(axis=1)
        return missed

    def shows(self, role: Role) -> Mask:
        """Return a mask, shape (n,), of the models that meet a requirement which decides the role."""
        columns = self.of(role)
        shown: Mask = ((self.met == 1.0) & self.decides)[:, columns].any(axis=1)
        return shown

    @property
    def untested(self) -> Floats:
        """How many required scores of forgetting and keeping, which other models have, each model lacks; shape (n,)."""
        lacking: Floats = np.isnan(self.values[:, self.of(Role.FORGET, Role.KEEP)]).sum(axis=1).astype(np.float64)
        return lacking

    @property
    def good(self) -> Mask:
        """A mask, shape (n,), of the models that meet the criterion.

        A good model misses nothing, has all required scores of forgetting and keeping, and the results for all
        thresholds that the user stated are known. Unless the criterion is ``none``, a good model also shows that it
        forgot and that it kept enough.
        """
        stated = self._marked(lambda item: item.source == STATED)
        good = ~self.misses(*Role) & np.isfinite(self.met[:, stated]).all(axis=1) & (not self.criterion.faults)
        good &= self.untested == 0
        if self.criterion.name in (USABLE, PAPER):
            return np.asarray(good & self.shows(Role.FORGET) & self.shows(Role.KEEP))
        return np.asarray(good & stated.any())

    def verdicts(self, index: int) -> tuple[Verdict, ...]:
        """Return the comparison of one model with every requirement."""
        target, values, met = self.targets[index], self.values[index].tolist(), self.met[index].tolist()
        return tuple(
            Verdict(
                requirement=item,
                value=None if math.isnan(value) else value,
                target=target.values.get(item.column),
                bound=item.bound(target),
                met=None if math.isnan(is_met) else bool(is_met),
            )
            for item, value, is_met in zip(self.criterion.requirements, values, met, strict=True)
        )

    def _marked(self, has_mark: Callable[[Requirement], bool]) -> Mask:
        return np.array([has_mark(item) for item in self.criterion.requirements], dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """The requirements of a good model.

    Attributes:
        name: ``usable``, ``paper`` or ``none``.
        left_out: the columns of the criterion that the target has no score for, so that other requirements replace
            them.
        unmeasured: further columns of the criterion without a score. No other requirement replaces them.
        faults: the columns whose score is near 0 for a target that knows the data, so that they cannot be right.
        targets_of: function that takes the rows of models and returns the scores of each model's target.
    """

    name: str
    requirements: tuple[Requirement, ...]
    left_out: tuple[str, ...]
    unmeasured: tuple[str, ...]
    faults: tuple[str, ...]
    columns: Columns
    targets_of: Callable[[pd.DataFrame], Sequence[TargetScores]]

    @property
    def attacked(self) -> tuple[str, ...]:
        """The attacked scores that have a bound."""
        return tuple(item.column for item in self.requirements if self.columns[item.column].attack)

    @property
    def of_runs(self) -> Criterion:
        """The requirements on scores that every run measures: all except those on attacked scores."""
        kept = tuple(item for item in self.requirements if item.column not in self.attacked)
        return replace(self, requirements=kept)

    @property
    def unbounded(self) -> tuple[Requirement, ...]:
        """The requirements without a bound because the target scores 0, if they leave forgetting or keeping unjudged.

        Then no model can be good. Only a target that knows too little of the data scores 0 in all metrics of one side.
        """
        if self.name == "none":
            return ()
        target = self.shared
        by_role = [[item for item in self.requirements if item.role is role] for role in (Role.FORGET, Role.KEEP)]
        return tuple(
            item
            for items in by_role
            if not any(item.bound(target) for item in items)
            for item in items
            if target.values.get(item.column) == 0.0
        )

    @property
    def shared(self) -> TargetScores:
        """The scores of the target if all models have the same target; otherwise their means."""
        return self.targets_of(pd.DataFrame({"_": [0]}))[0]

    def verdicts(self, row: pd.Series) -> tuple[Verdict, ...]:
        """Compare one model with every requirement."""
        return self.judge(row.to_frame().T.infer_objects()).verdicts(0)

    def judge(self, rows: pd.DataFrame) -> Judged:
        """Compare all models with every requirement."""
        targets = self.targets_of(rows)
        distinct = {id(target): target for target in targets}
        values, met, miss = (np.full((len(rows), len(self.requirements)), np.nan) for _ in range(3))
        decides = np.ones(met.shape, dtype=bool)
        for index, item in enumerate(self.requirements):
            found = {key: self._bound(item, target) for key, target in distinct.items()}
            bounds, scales, shows = (np.array([found[id(target)][part] for target in targets]) for part in range(3))
            scores = numbers(rows, item.column).to_numpy(dtype=np.float64)
            scores = np.where(np.isfinite(scores), scores, np.nan)
            excess = bounds - scores if item.limit.sign.startswith(">") else scores - bounds
            is_missed = excess >= 0 if len(item.limit.sign) == 1 else excess > 0
            values[:, index] = scores
            met[:, index] = np.where(np.isnan(excess), np.nan, 1.0 - is_missed)
            size = np.maximum(excess, 0.0)
            miss[:, index] = np.where(is_missed, np.maximum(size / (size + scales), math.ulp(0.0)), 0.0)
            decides[:, index] = shows.astype(bool)
        return Judged(self, targets, values, met, miss, decides)

    def _bound(self, item: Requirement, target: TargetScores) -> tuple[float, float, bool]:
        """Return the bound, the distance from the worst score to the bound, and :attr:`Judged.decides`."""
        bound = item.bound(target)
        if bound is None:
            return math.nan, 1.0, True
        low, high = self.columns[item.column].bounds
        worst = low if item.limit.sign.startswith(">") else high
        if item.role is Role.FORGET:
            worst = target.values.get(item.column)
        scale = abs(bound.bound - worst) if worst is not None else abs(bound.bound)
        scale = scale or (high - low if low is not None and high is not None else 1.0)
        return bound.bound, scale, item.decisive and not item.shows_nothing(target)

    def is_good(self, rows: pd.DataFrame) -> Mask:
        """Return a mask, shape (n,), of the models that meet the criterion."""
        return self.judge(rows).good


def criterion_of(sweep: SweepFile, table: TrialTable | None = None) -> Criterion:
    """Return the criterion of a sweep: the requirements of the named criterion, and the user's constraints.

    Metrics without a value for the target, or for any model of ``table``, are left out.
    """
    columns, files = sweep.columns, (sweep, *sweep.files.values())
    known = {name for file in files for scores in (file.baseline, *file.baselines.values()) for name in scores}
    models = set() if table is None else set(table.models.measured(columns.metrics))
    stated = tuple(dict.fromkeys(map(parse_constraint, sweep.constraints)))
    measured = known & models if known & models else known
    requirements, left_out, unmeasured = requirements_of(sweep.criterion, stated, columns, measured)
    faults = tuple(_faults(requirements, TargetScores(sweep.baseline), columns))
    return Criterion(sweep.criterion, requirements, left_out, unmeasured, faults, columns, _Targets(sweep))


def requirements_of(
    criterion: str, stated: Sequence[Constraint], columns: Columns, measured: Collection[str]
) -> tuple[tuple[Requirement, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the requirements, :attr:`Criterion.left_out` and :attr:`Criterion.unmeasured`.

    Args:
        stated: the thresholds that the user stated.
        measured: the metrics with a value.
    """
    own: list[Requirement] = []
    left_out: list[str] = []
    unmeasured: list[str] = []
    if criterion == USABLE:
        own, left_out, unmeasured = _usable(columns, measured)
    elif criterion == PAPER:
        own = [item for of in _ROLES for item in _paper(columns, measured, of)]
    if own:
        own += [item for item in _fluency(columns) if item.column in measured]
    replaced, own_roles = {item.name for item in stated}, {item.role for item in own}
    requirements = []
    for item in stated:
        role = role_of(item, columns)
        adds = role in own_roles or (own and role not in _ROLES.values())
        is_decisive = not adds or any(item.name == other.column for other in own)
        requirements.append(Requirement(item, role, STATED, decisive=is_decisive))
    requirements += [item for item in own if item.column not in replaced]
    return tuple(requirements), tuple(left_out), tuple(name for name in unmeasured if name not in replaced)


_ROLES = {"forget": Role.FORGET, "retain": Role.KEEP}


def role_of(limit: Constraint, columns: Columns) -> Role:
    """Return the role of a threshold on any column."""
    column = columns[limit.name]
    if column.of not in _ROLES or column.direction is None:
        return Role.OTHER
    wants_better = limit.sign.startswith(">") == (column.direction == "max")
    if column.is_form:
        return Role.FLUENCY if column.fluency and wants_better else Role.OTHER
    return Role.FORGET if wants_better == (column.of == "forget") else Role.KEEP


def _usable(columns: Columns, measured: Collection[str]) -> tuple[list[Requirement], list[str], list[str]]:
    """Return the requirements of ``usable`` on forgetting and keeping, and its columns without a score."""
    requirements: list[Requirement] = []
    left_out: list[str] = []
    unmeasured: list[str] = []
    for of, role in _ROLES.items():
        own = {
            name: item.usable
            for name, item in columns.entries.items()
            if item.of == of and item.usable and "share" in item.usable and not item.usable.get("preferred")
        }
        known = [_share(name, part, role, columns) for name, part in own.items() if name in measured]
        if known:
            units = {columns[item.column].unit for item in known}  # texts and images have different metrics
            unmeasured += [name for name in own if name not in measured and columns[name].unit in units]
        else:
            is_needed = any(columns[name].of == of for name in columns.thresholds if name in measured)
            left_out += list(own)[:1] if is_needed else []
            known += _paper(columns, measured, of)
        requirements += known
    return requirements, left_out, unmeasured


def _share(name: str, part: Mapping[str, Any], role: Role, columns: Columns) -> Requirement:
    sign = "<=" if columns[name].direction == "min" else ">="
    limit = Constraint(name, sign, float(part["share"]), relative=True)
    return Requirement(limit, role, USABLE, sampled=True, reference=str(part.get("of") or ""))


def _paper(columns: Columns, measured: Collection[str], of: str) -> list[Requirement]:
    """Return the paper's thresholds on a data set or, for data without them, shares of the primary metric's score."""
    papers = [item for name, item in columns.thresholds.items() if columns[name].of == of and name in measured]
    if papers:
        return [Requirement(item, _ROLES[of], PAPER, decisive=columns[item.name].primary) for item in papers]
    requirements = []
    for name in columns.primaries(measured):
        if columns[name].of == of and columns[name].direction is not None:
            share = FORGET_SHARE if of == "forget" else KEEP_SHARE
            part = columns[name].usable or {"share": share if columns[name].direction == _BETTER[of] else 1.0 / share}
            requirements.append(_share(name, part, _ROLES[of], columns))
    return requirements


_BETTER = {"forget": "min", "retain": "max"}
"""The direction of metrics that count what is known of a data set."""


def _fluency(columns: Columns) -> Iterator[Requirement]:
    for name in columns.repetition("retain"):
        yield Requirement(Constraint(name, "<=", 1.0, relative=True), Role.FLUENCY, USABLE, sampled=True)
    for name, column in columns.entries.items():
        if column.usable and column.usable.get("preferred"):
            yield replace(_share(name, column.usable, Role.FLUENCY, columns), preferred=True)


def _faults(requirements: Sequence[Requirement], target: TargetScores, columns: Columns) -> Iterator[str]:
    """Yield the columns of a role whose scores are all near 0, although the target's loss on the data set is low."""
    for of, role in _ROLES.items():
        recalls = [
            item.column
            for item in requirements
            if item.role is role and item.limit.relative and columns[item.column].direction == _BETTER[of]
        ]
        scores = [target.values[name] for name in recalls if name in target.values]
        losses = [name for name in columns.losses if columns[name].of == of]
        guesses = [(target.values.get(name), columns[name].bounds[1]) for name in losses]
        is_known = any(loss is not None and guess and loss <= KNOWN_LOSS * guess for loss, guess in guesses)
        if scores and max(scores) <= NO_SCORE and is_known:
            yield from recalls


@dataclass(frozen=True, slots=True, eq=False)
class _Targets:
    """Returns the scores of each model's target. Models with the same target share one object."""

    sweep: SweepFile

    def __call__(self, rows: pd.DataFrame) -> Sequence[TargetScores]:
        names = [rows[name] if name in rows else [None] * len(rows) for name in ("sweep", "seed")]
        found: dict[tuple[Any, Any], TargetScores] = {}
        keys = list(zip(*names, strict=True))
        for key in set(keys):
            file = self.sweep.files.get(str(key[0]), self.sweep)
            values = self.sweep.baseline_of({"sweep": key[0], "seed": key[1]})
            entries = self.sweep.columns.entries.items()
            attacked = {name: file.items[item.attacked] for name, item in entries if item.attacked in file.items}
            found[key] = TargetScores(values, file.never_saw, {**attacked, **file.items})
        return [found[key] for key in keys]
