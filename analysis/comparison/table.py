"""A comparison as data: a table for every problem, methods by metrics, without and with AutoLR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.tables.note import Note
from search_spaces.constraint import Constraint


@dataclass(frozen=True, slots=True)
class Value:
    """Mean and standard deviation (None for one seed) of a metric over the ``seeds`` on which it was measured, and
    whether the mean meets its threshold."""

    mean: float
    deviation: float | None
    met: bool | None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One configuration's numbers.

    Attributes:
        label: the configuration: ``lr 1e-4, c 0.9``, or AutoLR's variant with its start; may be empty.
        seeds: finished trials behind the means; ``lost`` diverged, stopped or failed.
        values: by metric; a metric that was not measured is missing.
        succeeded, missed, not_judged: how many finished seeds meet all thresholds, miss one, or cannot be judged.
        seed_numbers: the seeds, including lost ones; () if an external table does not name them all.
    """

    label: str
    seeds: int
    lost: int
    values: Mapping[str, Value]
    succeeded: int = 0
    missed: int = 0
    not_judged: int = 0
    seed_numbers: tuple[int, ...] = ()

    @property
    def success(self) -> bool | None:
        """Whether every seed meets all thresholds, or none does; None if some do, or if that cannot be judged."""
        if self.succeeded:
            return True if self.succeeded == self.seeds + self.lost else None
        return False if self.missed and not self.not_judged else None

    @property
    def unit(self) -> str:
        """``seed``, or ``run`` if an external table does not say which seeds."""
        return "seed" if self.seed_numbers else "run"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A method without and with AutoLR; None if it was not run."""

    method: str
    without: Entry | None
    with_auto: Entry | None

    @property
    def arms(self) -> dict[str, Entry]:
        """The entries, by name: ``gdiff``, ``gdiff with AutoLR``."""
        sides = ((self.method, self.without), (f"{self.method} with AutoLR", self.with_auto))
        return {name: entry for name, entry in sides if entry is not None}


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """One problem: the No-unlearn model (its mean, if every seed has one) and every method.

    Attributes:
        apart: what sets the problem apart from others on the same model and data set.
        thresholds: those that a seed must meet to succeed.
        problem_notes: in what the problems of the whole comparison differ.
        notes: what weakens this table.
    """

    model: str
    dataset: str
    apart: str
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]
    thresholds: tuple[Constraint, ...] = ()
    problem_notes: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def every_row(self) -> tuple[MethodRow, ...]:
        """The No-unlearn model, if there is one, and the methods."""
        return (*([MethodRow("No-unlearn", self.baseline, None)] if self.baseline else []), *self.rows)

    def sides(self, row: MethodRow) -> tuple[Entry | None, ...]:
        """The entries of a row: without and with AutoLR; one if no method was run with it, or for No-unlearn."""
        both = any(other.with_auto is not None for other in self.rows) and row in self.rows
        return (row.without, row.with_auto) if both else (row.without,)
