"""The content of a comparison: one table for every unlearning problem (a model and a data set with their settings). The
tables have the metrics of each method without and with AutoLR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.tables.note import Note
from analysis.tables.problems import Problem
from search_spaces.constraint import Constraint


@dataclass(frozen=True, slots=True)
class Value:
    """The mean and standard deviation of a metric over the ``seeds`` on which it was measured.

    ``deviation`` is None for one seed. ``met`` is whether the metric meets its threshold; None if unknown.
    """

    mean: float
    deviation: float | None
    met: bool | None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """The results of one configuration.

    Attributes:
        label: the configuration, such as ``lr 1e-4, c 0.9``, or AutoLR's variant and initial rate; may be empty.
        seeds: the number of finished trials, over which the means are computed.
        lost: the number of trials that did not finish.
        values: the mean and deviation of each measured metric.
        succeeded: the number of finished seeds that meet all thresholds.
        missed: the number of finished seeds that miss a threshold.
        not_judged: the number of finished seeds that cannot be judged.
        seed_numbers: the seeds, including lost seeds; () if an external table does not give all seeds.
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
        """True if every seed meets all thresholds; False if every finished seed misses a threshold; None otherwise."""
        if self.succeeded:
            return True if self.succeeded == self.seeds + self.lost else None
        return False if self.missed and not self.not_judged else None

    @property
    def unit(self) -> str:
        """The noun for a trial: ``seed``, or ``run`` if an external table does not give the seeds."""
        return "seed" if self.seed_numbers else "run"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """The entries of a method without and with AutoLR. An entry is None if the method was not run that way."""

    method: str
    without: Entry | None
    with_auto: Entry | None

    @property
    def arms(self) -> dict[str, Entry]:
        """The entries that exist, keyed by names such as ``gdiff`` and ``gdiff with AutoLR``."""
        sides = ((self.method, self.without), (f"{self.method} with AutoLR", self.with_auto))
        return {name: entry for name, entry in sides if entry is not None}


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """The table of one problem, with a row for the target (before unlearning) and a row for every method.

    If every seed has its own target, the target's row has the mean over the targets.

    Attributes:
        thresholds: the thresholds that a seed must meet to succeed.
        problem_notes: the notes on the columns in which the problems of the whole comparison differ.
        notes: the notes below this table.
    """

    problem: Problem
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]
    thresholds: tuple[Constraint, ...] = ()
    problem_notes: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def every_row(self) -> tuple[MethodRow, ...]:
        """The target's row, if it exists, followed by the rows of the methods."""
        return (*([MethodRow("target", self.baseline, None)] if self.baseline else []), *self.rows)

    def sides(self, row: MethodRow) -> tuple[Entry | None, ...]:
        """Return the entries of a row without and with AutoLR.

        Only the entry without AutoLR is returned for the target's row, or if no method was run with AutoLR.
        """
        both = any(other.with_auto is not None for other in self.rows) and row in self.rows
        return (row.without, row.with_auto) if both else (row.without,)
