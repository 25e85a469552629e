"""The data of a comparison: a table for every problem, methods by metrics, without and with AutoLR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.tables.note import Note
from search_spaces.constraint import Constraint


@dataclass(frozen=True, slots=True)
class Value:
    """The mean and standard deviation (None for one seed) of a metric over the ``seeds`` on which it was measured.
    ``met`` is whether the metric meets its threshold; None if unknown."""

    mean: float
    deviation: float | None
    met: bool | None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """The results of one configuration.

    Attributes:
        label: the configuration, such as ``lr 1e-4, c 0.9`` or AutoLR's variant and start; may be empty.
        seeds, lost: the number of finished trials (whose mean is shown), and of trials that did not finish.
        values: the value of each measured metric.
        succeeded, missed, not_judged: how many finished seeds meet all thresholds, miss one, or cannot be judged.
        seed_numbers: the seeds, including lost ones; () if an external table does not give all of them.
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
        """True if every seed meets all thresholds, False if no seed does; None if only some do or it is unknown."""
        if self.succeeded:
            return True if self.succeeded == self.seeds + self.lost else None
        return False if self.missed and not self.not_judged else None

    @property
    def unit(self) -> str:
        """``seed``, or ``run`` if an external table does not give the seeds."""
        return "seed" if self.seed_numbers else "run"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """The entries of a method without and with AutoLR; an entry is None if it was not run."""

    method: str
    without: Entry | None
    with_auto: Entry | None

    @property
    def arms(self) -> dict[str, Entry]:
        """The entries, keyed by names such as ``gdiff`` and ``gdiff with AutoLR``."""
        sides = ((self.method, self.without), (f"{self.method} with AutoLR", self.with_auto))
        return {name: entry for name, entry in sides if entry is not None}


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """The table of one problem: the No-unlearn model (averaged if every seed has its own) and every method.

    Attributes:
        apart: the settings that distinguish the problem from others on the same model and data set.
        thresholds: the thresholds that a seed must meet to succeed.
        problem_notes: the notes on the columns that distinguish the problems of the whole comparison.
        notes: the notes that weaken or explain this table.
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
        """The row of the No-unlearn model, if there is one, followed by the rows of the methods."""
        return (*([MethodRow("No-unlearn", self.baseline, None)] if self.baseline else []), *self.rows)

    def sides(self, row: MethodRow) -> tuple[Entry | None, ...]:
        """Return the entries without and with AutoLR; only the former for No-unlearn, or if AutoLR was never run."""
        both = any(other.with_auto is not None for other in self.rows) and row in self.rows
        return (row.without, row.with_auto) if both else (row.without,)
