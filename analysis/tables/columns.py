"""The column dictionary, which describes each column of the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from search_spaces.common.objective import Objective
from search_spaces.constraint import Constraint

SETTINGS = frozenset({"method", "training", "auto_lr", "data", "scoring", "attack", "placement"})
"""The roles of the columns that contain settings of a trial."""
_NUMBERS = frozenset({"loss", "metric", "cost", "progress", "course"})
_STRUCTURE = {"model": "data", "dataset": "data", "method": "method", "lr": "training", "seed": "training"} | {
    "auto_lr": "auto_lr"
}
"""The roles of the columns that any table may have, even without a column dictionary."""


@dataclass(frozen=True, slots=True)
class Column:
    """The entry for one column in the column dictionary.

    Attributes:
        direction: ``max`` or ``min``; None if neither large nor small values are better.
        knows: for a metric without a direction, ``max`` if a model that knows the forget set has larger values than one
            that does not, and ``min`` if it has smaller values; None if this is unknown.
        bounds: the lowest and the highest value; None for a missing bound.
        of: the data set on which the loss or metric is measured, such as ``forget``.
        primary: whether the metric is the main metric of its data set, which reports show beside the losses.
        threshold: the threshold from the paper; None without such a threshold.
        fluency: whether the metric detects repetitive answers.
        usable: the metric's part in the criterion ``usable`` (``Metric.usable``); None if the metric has no part.
        descriptive: whether the metric does not say how good a model is (``Metric.descriptive``).
        each_evaluation: whether the metric is measured together with the losses, so its value does not mean that the
            other metrics of this epoch are measured.
        attack: the attack that measures the metric; "" for a metric of the model itself.
        attacked: the metric whose value after the attack the column has; "" if there is none.
    """

    role: str = ""
    label: str = ""
    unit: str = ""
    direction: str | None = None
    knows: str | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    of: str | None = None
    primary: bool = False
    threshold: Constraint | None = None
    fluency: bool = False
    usable: Mapping[str, Any] | None = None
    descriptive: bool = False
    each_evaluation: bool = False
    attack: str = ""
    attacked: str = ""

    @property
    def is_form(self) -> bool:
        """Whether the column describes the form of the answers, such as loops, and not what they tell."""
        return self.fluency or "kind" in (self.usable or {})


@dataclass(frozen=True, slots=True)
class Columns:
    """The column dictionary: an entry for each column name, in the order in which a report shows them."""

    entries: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Columns:
        """Parse the entry ``columns`` of sweep.json."""
        return cls({str(name): _column(str(name), values) for name, values in content.items()})

    def __or__(self, other: Columns) -> Columns:
        """Merge two column dictionaries. If both have an entry for a column, the left entry is used."""
        return Columns({**self.entries, **{name: item for name, item in other.entries.items() if name not in self}})

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __getitem__(self, name: str) -> Column:
        return self.entries.get(name) or Column(role=_STRUCTURE.get(name, ""))

    def is_setting(self, name: str) -> bool:
        return self[name].role in SETTINGS

    def is_number(self, name: str) -> bool:
        """Return whether the column must contain numbers."""
        return name in ("lr", "seed", "step") or self[name].role in _NUMBERS

    def is_loss(self, name: str) -> bool:
        """Return whether the column is a loss. The upper bound of a loss is the loss of a random guess."""
        return self[name].role == "loss"

    @property
    def losses(self) -> tuple[str, ...]:
        """The names of the losses, one for each data set."""
        loss_by_set: dict[str | None, str] = {}
        for name in filter(self.is_loss, self.entries):
            loss_by_set.setdefault(self[name].of, name)
        return tuple(loss_by_set.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that are not losses."""
        return tuple(name for name in self.entries if self[name].role == "metric")

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The names of all losses and metrics."""
        return tuple(name for name in self.entries if self[name].role in ("loss", "metric"))

    def primaries(self, measured: Iterable[str]) -> tuple[str, ...]:
        """Return the primary metrics in ``measured``: at most one for the forget set and one for the retain set."""
        names = set(measured)
        by_set = {c.of: name for name, c in reversed(list(self.entries.items())) if c.primary and name in names}
        return tuple(by_set[of] for of in ("forget", "retain") if of in by_set)

    def repetition(self, of: str) -> tuple[str, ...]:
        """Return the names of the metrics that detect repetitive answers on a data set."""
        return tuple(name for name, item in self.entries.items() if item.fluency and item.of == of)

    def label(self, name: str) -> str:
        """Return the label of a column without the unit. The default is the column's name."""
        return self[name].label or short(name)

    def axis(self, name: str) -> str:
        """Return the axis label of a column, with the unit in brackets."""
        unit = self[name].unit
        return f"{self.label(name)} ({unit})" if unit else self.label(name)

    def better(self, name: str) -> str:
        """Return ``higher`` or ``lower``, depending on which values are better; "" if the column has no direction."""
        return {"max": "higher", "min": "lower"}.get(self[name].direction or "", "")

    def limits(self, name: str) -> tuple[float, float] | None:
        """Return the axis limits of a column: its bounds plus a margin. None for a loss, or if a bound is missing."""
        low, high = self[name].bounds
        if self.is_loss(name) or low is None or high is None:
            return None
        return low - 0.03 * (high - low), high + 0.03 * (high - low)

    def objective(self, name: str) -> Objective | None:
        """Return the column as an objective; None if the column has no direction or lacks a bound."""
        column = self[name]
        low, high = column.bounds
        if column.direction is None or low is None or high is None:
            return None
        return Objective(name=name, column=name, direction=column.direction, low=low, high=high, label=self.axis(name))

    def primary_objectives(self, measured: Iterable[str]) -> tuple[Objective, ...]:
        """Return the two primary metrics in ``measured`` as objectives; () if one is missing or lacks a bound."""
        objectives = tuple(item for name in self.primaries(measured) if (item := self.objective(name)))
        return objectives if len(objectives) == 2 else ()

    @property
    def thresholds(self) -> dict[str, Constraint]:
        """The thresholds from the paper, keyed by the name of the column to which they apply."""
        return {name: item.threshold for name, item in self.entries.items() if item.threshold is not None}


def short(name: str) -> str:
    """Return the column's name with spaces instead of underscores."""
    return name.replace("_", " ")


def _column(name: str, values: Mapping[str, Any]) -> Column:
    low, high = values.get("bounds") or (None, None)
    return Column(
        role=str(values["role"]),
        label=str(values.get("label") or ""),
        unit=str(values.get("unit") or ""),
        direction=values.get("direction"),
        knows=values.get("knows"),
        bounds=(_finite_bound(low), _finite_bound(high)),
        of=values.get("of"),
        primary=bool(values.get("primary")),
        threshold=_threshold(name, values.get("threshold")),
        fluency=bool(values.get("fluency")),
        usable=values.get("usable"),
        descriptive=bool(values.get("descriptive")),
        each_evaluation=bool(values.get("each_evaluation")),
        attack=str(values.get("attack") or ""),
        attacked=str(values.get("attacked") or ""),
    )


def _finite_bound(bound: float | None) -> float | None:
    return None if bound is None or not math.isfinite(bound) else float(bound)


def _threshold(name: str, limit: Mapping[str, float] | None) -> Constraint | None:
    if not limit:
        return None
    if "below_share" in limit:
        return Constraint(name, "<", limit["below_share"], relative=True)
    if "below" in limit:
        return Constraint(name, "<", limit["below"])
    return Constraint(name, ">=", limit["share"], relative=True)
