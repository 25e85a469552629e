"""The criterion under attack: what a model that meets the criterion must also meet after each attack.

An attacked score has the bound of the score itself:

- After an attack, the model tells the forgotten facts no more often than a model that never saw the forget set and is
  attacked alike. Without such a model, the bound is that of the score without the attack.
- The model keeps the stated share of what the target tells after the same attack. An attack after which the target
  itself tells less than half of what it tells otherwise says nothing about keeping, so it is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.frontier.criterion import Criterion, Requirement, Role, Verdict
from analysis.tables.trade_off import Mask
from analysis.tables.trial_table import finite_cell, numbers

KNOWN_SHARE = 0.5
"""The share of its score that the target must have after an attack, so that the attack can show what a model keeps."""


def under_attack(criterion: Criterion, measured: Collection[str]) -> Criterion:
    """Return the criterion with further requirements: one for each attacked score in ``measured``."""
    return replace(criterion, requirements=(*criterion.requirements, *_attacked(criterion, measured)))


def _attacked(criterion: Criterion, measured: Collection[str]) -> Iterator[Requirement]:
    target = criterion.shared.values
    columns = criterion.columns
    for item in criterion.requirements:
        if item.role not in (Role.FORGET, Role.KEEP) or columns[item.column].attack:
            continue
        for name, column in columns.entries.items():
            if column.attacked != item.column or name not in measured:
                continue
            known = target.get(name, 0.0) >= KNOWN_SHARE * target.get(item.column, 0.0)
            if item.role is Role.FORGET or (known and target.get(name)):
                reference = (item.reference or item.column) if item.role is Role.FORGET else ""
                limit = replace(item.limit, name=name)
                yield replace(item, limit=limit, reference=reference, decisive=False)


def attacked_rows(rows: pd.DataFrame, criterion: Criterion) -> Mask:
    """Return a mask, shape (rows,), of the models with a value of every attacked score that the criterion bounds.

    No model is in the mask if the criterion bounds no attacked score.
    """
    is_known = [np.isfinite(numbers(rows, name).to_numpy(dtype=np.float64)) for name in criterion.attacked]
    return np.all(is_known, axis=0) if is_known else np.zeros(len(rows), dtype=bool)


@dataclass(frozen=True, slots=True)
class Survival:
    """How a model stands after the attacks that were measured on it.

    Attributes:
        attacks: the names of the attacks that a requirement of the criterion applies to. If even the target meets the
            bound on forgetting after an attack, the attack shows nothing and is left out.
        broken: the names of those after which the model misses a requirement.
        worst: the missed requirement of each broken attack that is missed by most.
    """

    attacks: tuple[str, ...]
    broken: tuple[str, ...]
    worst: tuple[Verdict, ...]

    def to_dict(self) -> dict[str, object]:
        worst = {item.requirement.column: {"value": item.value, "bound": _number(item)} for item in self.worst}
        return {"attacks": list(self.attacks), "broken": list(self.broken), "worst": worst}


def survival(row: pd.Series, criterion: Criterion) -> Survival | None:
    """Return how the model in ``row`` stands after its attacks; None if no attack is measured on it."""
    names = [name for name, column in criterion.columns.entries.items() if column.attack]
    measured = [name for name in names if finite_cell(row, name) is not None]
    (target,) = criterion.targets_of(row.to_frame().T)
    found: dict[str, list[Verdict]] = {}
    for verdict in under_attack(criterion, measured).verdicts(row):
        attack = criterion.columns[verdict.requirement.column].attack
        if attack and verdict.met is not None and not verdict.requirement.shows_nothing(target):
            found.setdefault(attack, []).append(verdict)
    missed = {attack: [item for item in verdicts if not item.met] for attack, verdicts in found.items()}
    worst = [max(items, key=_excess) for items in missed.values() if items]
    broken = tuple(attack for attack, items in missed.items() if items)
    return Survival(tuple(found), broken, tuple(sorted(worst, key=_excess, reverse=True))) if found else None


def _number(verdict: Verdict) -> float | None:
    return None if verdict.bound is None else verdict.bound.bound


def _excess(verdict: Verdict) -> float:
    assert verdict.bound is not None
    return verdict.bound.violation(verdict.value) or 0.0
