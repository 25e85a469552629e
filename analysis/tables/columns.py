"""The dictionary of columns: the meaning of each column of the tables. No metric is named in the code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.errors import AnalysisError
from analysis.tables.trade_off import Objective
from search_spaces.constraint import Constraint, all_met

SETTINGS = frozenset({"method", "training", "auto_lr", "data", "scoring", "placement"})
"""The roles of a trial's settings."""
_NUMBERS = frozenset({"loss", "metric", "cost", "progress", "course"})
_STRUCTURE = {"model": "data", "dataset": "data", "method": "method", "lr": "training", "seed": "training"} | {
    "auto_lr": "auto_lr"
}
"""The roles of the columns that any table may have, even without a dictionary."""


@dataclass(frozen=True, slots=True)
class Column:
    """An entry of the dictionary.

    ``of`` is the set that the column is about, ``primary`` marks the metric shown beside the losses, ``fluency`` a
    measure of answers that repeat themselves. A missing bound is None, as is the ``direction`` of a column that is
    neither better large nor better small.
    """

    role: str = ""
    label: str = ""
    unit: str = ""
    direction: str | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    of: str | None = None
    primary: bool = False
    threshold: Constraint | None = None
    fluency: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Every column by name, in the order of a report."""

    entries: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Columns:
        """The entry ``columns`` of sweep.json.

        Raises:
            AnalysisError: an entry is no object, or holds a value that does not belong there.
        """
        return cls({str(name): _column(str(name), values) for name, values in content.items()})

    def __or__(self, other: Columns) -> Columns:
        """Both dictionaries; for a column in both the entry of the first counts."""
        return Columns({**self.entries, **{name: item for name, item in other.entries.items() if name not in self}})

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __getitem__(self, name: str) -> Column:
        return self.entries.get(name) or Column(role=_STRUCTURE.get(name, ""))

    def is_setting(self, name: str) -> bool:
        """Whether the column is a setting of a trial."""
        return self[name].role in SETTINGS

    def is_number(self, name: str) -> bool:
        """Whether the column must hold numbers."""
        return name in ("lr", "seed", "step") or self[name].role in _NUMBERS

    def is_loss(self, name: str) -> bool:
        """Whether the column is a loss: bounded by a random guess, and compared by factors."""
        return self[name].role == "loss"

    @property
    def losses(self) -> tuple[str, ...]:
        """The loss on each set; the first of several on one set, such as a capped one."""
        found: dict[str | None, str] = {}
        for name in filter(self.is_loss, self.entries):
            found.setdefault(self[name].of, name)
        return tuple(found.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are not losses."""
        return tuple(name for name in self.entries if self[name].role == "metric")

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Every loss and metric."""
        return tuple(name for name in self.entries if self[name].role in ("loss", "metric"))

    def primaries(self, measured: Iterable[str]) -> tuple[str, ...]:
        """The primary metric of the forget set and that of the retain set, of those ``measured``."""
        there = set(measured)
        found = {item.of: name for name, item in reversed(list(self.entries.items())) if item.primary and name in there}
        return tuple(found[of] for of in ("forget", "retain") if of in found)

    def repetition(self, of: str) -> tuple[str, ...]:
        """The metrics that show answers on the set ``of`` that repeat themselves."""
        return tuple(name for name, item in self.entries.items() if item.fluency and item.of == of)

    def label(self, name: str) -> str:
        """The label of the column without its unit; its name in words if it has no label."""
        return self[name].label or short(name)

    def axis(self, name: str) -> str:
        """The label of an axis, with the unit in brackets."""
        unit = self[name].unit
        return f"{self.label(name)} ({unit})" if unit else self.label(name)

    def better(self, name: str) -> str:
        """``higher`` or ``lower``; "" without a direction."""
        return {"max": "higher", "min": "lower"}.get(self[name].direction or "", "")

    def limits(self, name: str) -> tuple[float, float] | None:
        """The bounds of a score with a margin; None for a loss, or if a bound is open."""
        low, high = self[name].bounds
        if self.is_loss(name) or low is None or high is None:
            return None
        return low - 0.03 * (high - low), high + 0.03 * (high - low)

    def objective(self, name: str) -> Objective | None:
        """The column as an objective; None without a direction or a bound."""
        column = self[name]
        low, high = column.bounds
        if column.direction is None or low is None or high is None:
            return None
        return Objective(name=name, column=name, direction=column.direction, low=low, high=high, label=self.axis(name))

    def primary_objectives(self, measured: Iterable[str]) -> tuple[Objective, ...]:
        """The primary pair as objectives; () if it was not measured, or has no bounds."""
        found = tuple(item for name in self.primaries(measured) if (item := self.objective(name)))
        return found if len(found) == 2 else ()

    @property
    def thresholds(self) -> dict[str, Constraint]:
        """The paper's thresholds, by column."""
        return {name: item.threshold for name, item in self.entries.items() if item.threshold is not None}

    def success(self, value: Callable[[str], float | None], baseline: Mapping[str, float]) -> bool | None:
        """Whether the values meet all thresholds; None if one cannot be judged and no other is missed."""
        return all_met(item.met(value(name), baseline.get(name)) for name, item in self.thresholds.items())


def short(name: str) -> str:
    """A column's name in words, shorter than its label."""
    return name.replace("_", " ")


def _column(name: str, values: object) -> Column:
    try:
        if not isinstance(values, Mapping):
            raise TypeError(f"it is {type(values).__name__}, expected an object")
        low, high = (
            None if bound is None or not math.isfinite(bound) else float(bound)
            for bound in values.get("bounds") or (None, None)
        )
        direction, threshold = values.get("direction"), values.get("threshold")
        if direction not in ("max", "min", None):
            raise ValueError(f"direction is '{direction}', expected max or min")
        return Column(
            role=str(values["role"]),
            label=str(values.get("label") or ""),
            unit=str(values.get("unit") or ""),
            direction=direction,
            bounds=(low, high),
            of=values.get("of"),
            primary=bool(values.get("primary")),
            threshold=_threshold(name, **threshold) if threshold else None,
            fluency=bool(values.get("fluency")),
        )
    except KeyError as error:
        raise AnalysisError(f"the column {name} in sweep.json has no {error}") from None
    except (TypeError, ValueError) as error:
        raise AnalysisError(f"the column {name} in sweep.json: {error}") from None


def _threshold(name: str, *, below: float | None = None, share: float | None = None) -> Constraint:
    """The threshold for success: ``below`` a value, or at least a ``share`` of the No-unlearn model's value."""
    if (below is None) == (share is None):
        raise ValueError("its threshold needs one of below and share")
    return Constraint(name, "<", below) if below is not None else Constraint(name, ">=", share or 0.0, relative=True)
