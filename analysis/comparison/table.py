"""A comparison as data: a table for every problem, methods by metrics, without and with AutoLR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.words import counted


@dataclass(frozen=True, slots=True)
class Value:
    """Mean and standard deviation (None for one seed) of a metric over the ``seeds`` that it was measured on, and
    whether the mean meets its threshold."""

    mean: float
    deviation: float | None
    met: bool | None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One configuration's numbers.

    Attributes:
        label: what was chosen: ``lr 1e-4, c 0.9``, or AutoLR's variant with its start; may be empty.
        seeds: finished trials behind the means; ``lost`` diverged, stopped or failed.
        values: by metric; a metric that was not measured is missing.
        success: whether every seed meets all thresholds, or none does; None where some do, and where that cannot be
            judged of all, as of lost ones.
        outcome: that in words (:func:`analysis.comparison.entry.entry_of`).
        succeeded: how many seeds meet all thresholds.
        seed_numbers: the seeds, lost ones among them; () where a table from elsewhere does not name them all.
    """

    label: str
    seeds: int
    lost: int
    values: Mapping[str, Value]
    success: bool | None = None
    outcome: str = "\u2013"
    succeeded: int = 0
    seed_numbers: tuple[int, ...] = ()

    @property
    def count(self) -> str:
        """``3 seeds``, or with lost ones ``1 of 3 seeds, 2 lost``."""
        if self.lost:
            return f"{of_all(self.seeds, self.seeds + self.lost, self.unit)}, {self.lost} lost"
        return counted(self.seeds, self.unit)

    @property
    def unit(self) -> str:
        """``seed``, or ``run`` where a table from elsewhere does not say which seeds."""
        return "seed" if self.seed_numbers else "run"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A method without and with AutoLR; None where it was not run."""

    method: str
    without: Entry | None
    with_auto: Entry | None

    @property
    def arms(self) -> dict[str, Entry]:
        """The entries that there are, by what they are called: ``gdiff``, ``gdiff with AutoLR``."""
        sides = ((self.method, self.without), (f"{self.method} with AutoLR", self.with_auto))
        return {name: entry for name, entry in sides if entry is not None}


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """One problem: the No-unlearn model (its mean, where every seed has one) and every method.

    ``apart`` is what sets it apart from others on the same model and data set; ``rule`` says how an entry was chosen,
    and ``notes`` what a reader should know of the trials before trusting it.
    """

    model: str
    dataset: str
    apart: str
    metrics: tuple[str, ...]
    baseline: Entry | None
    rows: tuple[MethodRow, ...]
    rule: str = ""
    notes: tuple[str, ...] = ()


def of_all(count: int, every: int, unit: str) -> str:
    """``2 of 3 seeds``."""
    return f"{count} of {counted(every, unit)}"
