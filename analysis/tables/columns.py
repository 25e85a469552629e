"""The dictionary of columns: the meaning of each column of the tables. No metric name is hard-coded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.errors import AnalysisError
from analysis.tables.trade_off import Objective
from search_spaces.constraint import Constraint, all_met

SETTINGS = frozenset({"method", "training", "auto_lr", "data", "scoring", "placement"})
"""The roles of columns with a trial's settings."""
_NUMBERS = frozenset({"loss", "metric", "cost", "progress", "course"})
_STRUCTURE = {"model": "data", "dataset": "data", "method": "method", "lr": "training", "seed": "training"} | {
    "auto_lr": "auto_lr"
}
"""The roles of the columns that any table may have, even without a dictionary."""


@dataclass(frozen=True, slots=True)
class Column:
    """An entry of the dictionary.

    ``of`` is the set that the column is measured on, such as ``forget``. ``primary`` marks a metric shown beside the
    losses, and ``fluency`` a metric of repetitive answers. ``direction`` is ``max`` or ``min``, or None if neither
    large nor small values are better. A missing bound is None.
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
    """All columns by name, in the order of a report."""

    entries: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Columns:
        """Parse the entry ``columns`` of sweep.json.

        Raises:
            AnalysisError: an entry is not an object, or has an invalid value.
        """
        return cls({str(name): _column(str(name), values) for name, values in content.items()})

    def __or__(self, other: Columns) -> Columns:
        """Return both dictionaries combined; if a column is in both, the entry of the first is used."""
        return Columns({**self.entries, **{name: item for name, item in other.entries.items() if name not in self}})

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __getitem__(self, name: str) -> Column:
        return self.entries.get(name) or Column(role=_STRUCTURE.get(name, ""))

    def is_setting(self, name: str) -> bool:
        """Return whether the column is a setting of a trial."""
        return self[name].role in SETTINGS

    def is_number(self, name: str) -> bool:
        """Return whether the column must contain numbers."""
        return name in ("lr", "seed", "step") or self[name].role in _NUMBERS

    def is_loss(self, name: str) -> bool:
        """Return whether the column is a loss, which is bounded by the loss of a random guess and compared by ratio."""
        return self[name].role == "loss"

    @property
    def losses(self) -> tuple[str, ...]:
        """The loss on each set. If a set has several losses, such as a capped one, the first is used."""
        found: dict[str | None, str] = {}
        for name in filter(self.is_loss, self.entries):
            found.setdefault(self[name].of, name)
        return tuple(found.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that are not losses."""
        return tuple(name for name in self.entries if self[name].role == "metric")

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The names of all losses and metrics."""
        return tuple(name for name in self.entries if self[name].role in ("loss", "metric"))

    def primaries(self, measured: Iterable[str]) -> tuple[str, ...]:
        """Return the primary metrics of the forget set and of the retain set, if they are among ``measured``."""
        there = set(measured)
        found = {item.of: name for name, item in reversed(list(self.entries.items())) if item.primary and name in there}
        return tuple(found[of] for of in ("forget", "retain") if of in found)

    def repetition(self, of: str) -> tuple[str, ...]:
        """Return the metrics that detect repetitive answers on the set ``of``."""
        return tuple(name for name, item in self.entries.items() if item.fluency and item.of == of)

    def label(self, name: str) -> str:
        """Return the label of the column without its unit; the name with spaces if it has no label."""
        return self[name].label or short(name)

    def axis(self, name: str) -> str:
        """Return the label of an axis, with the unit in brackets."""
        unit = self[name].unit
        return f"{self.label(name)} ({unit})" if unit else self.label(name)

    def better(self, name: str) -> str:
        """Return the better direction, ``higher`` or ``lower``; "" if the column has none."""
        return {"max": "higher", "min": "lower"}.get(self[name].direction or "", "")

    def limits(self, name: str) -> tuple[float, float] | None:
        """Return the bounds of a score plus a margin; None for a loss, or if a bound is missing."""
        low, high = self[name].bounds
        if self.is_loss(name) or low is None or high is None:
            return None
        return low - 0.03 * (high - low), high + 0.03 * (high - low)

    def objective(self, name: str) -> Objective | None:
        """Return the column as an objective; None if the direction or a bound is missing."""
        column = self[name]
        low, high = column.bounds
        if column.direction is None or low is None or high is None:
            return None
        return Objective(name=name, column=name, direction=column.direction, low=low, high=high, label=self.axis(name))

    def primary_objectives(self, measured: Iterable[str]) -> tuple[Objective, ...]:
        """Return the two primary metrics as objectives; () if one was not measured or has no bounds."""
        found = tuple(item for name in self.primaries(measured) if (item := self.objective(name)))
        return found if len(found) == 2 else ()

    @property
    def thresholds(self) -> dict[str, Constraint]:
        """The paper's thresholds, keyed by column."""
        return {name: item.threshold for name, item in self.entries.items() if item.threshold is not None}

    def success(self, value: Callable[[str], float | None], baseline: Mapping[str, float]) -> bool | None:
        """Return whether the values meet all thresholds; None if one cannot be judged and no other is missed."""
        return all_met(item.met(value(name), baseline.get(name)) for name, item in self.thresholds.items())


def short(name: str) -> str:
    """Return a column's name with spaces, which is shorter than its label."""
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
    """Return the threshold for success: ``below`` a value, or at least a ``share`` of the No-unlearn model's value."""
    if (below is None) == (share is None):
        raise ValueError("its threshold needs one of below and share")
    return Constraint(name, "<", below) if below is not None else Constraint(name, ">=", share or 0.0, relative=True)
