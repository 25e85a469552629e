"""The verdict that compares AutoLR with hand-tuned learning rates, as facts; judging.py computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from analysis.study.collapse import Collapse
from analysis.study.hand_tuning import GridEdge
from analysis.study.paired import ALPHA, PairedResult, seeds_to_tell
from analysis.study.study_runs import Configuration, Task
from analysis.study.tuning_curve import TuningCurve
from analysis.tables.note import Note

BETTER, WORSE, UNDECIDED, TOO_FEW, OPEN = "better", "worse", "undecided", "too few seeds", "open"
DESCRIBED = "described"
"""The outcome if the objectives were chosen after the results were known: a description, not a decision."""
SINGLE, ORACLE = "best single lr", "per-c oracle"
WITHIN = 0.05
"""A hypervolume counts as near the best if it is below it by at most this share."""
FEW_UPDATES = 5
"""If a run has fewer updates, AutoLR's result depends mostly on its initial rate."""
SETS_ITS_RATE_ONCE = ("safe",)
"""The rules that choose the rate at their first update, whatever the initial rate is."""
MISSING = "are missing"


class Sides(NamedTuple):
    """The mean hypervolumes of AutoLR and of a hand-tuned baseline."""

    auto: float
    hand: float


@dataclass(frozen=True, slots=True)
class Primary:
    """The primary question, named before the results are known: does AutoLR beat the best single lr for one method?

    ``variant`` is the variant of AutoLR, "" if there is only one. Its test is not corrected for the other comparisons.
    """

    method: str
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> Primary:
        """Parse ``ngdiff`` or, if there are several variants of AutoLR, ``ngdiff/safe/freshx4``."""
        method, _, variant = text.strip().partition("/")
        return cls(method, variant)

    def __str__(self) -> str:
        return f"{self.method}/{self.variant}" if self.variant else self.method

    def asks(self, method: str, variant: str) -> bool:
        """Return whether the question is about this method and variant; ``variant`` is "" if AutoLR was not run."""
        return method == self.method and (not variant or self.variant in ("", variant))


@dataclass(frozen=True, slots=True)
class LostSeeds:
    """The ``seeds`` on which one side has no complete front, and ``how`` runs were lost on these seeds."""

    side: str
    seeds: tuple[int, ...]
    how: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """A task and AutoLR variant without a verdict, and the reason; ``variant`` is "" if AutoLR was not run."""

    task: Task
    variant: str
    why: Note


@dataclass(frozen=True, slots=True)
class Baseline:
    """A hand-tuned baseline and its comparison with AutoLR.

    Attributes:
        name: :data:`SINGLE` or :data:`ORACLE`.
        choice: the learning rate of every configuration.
        runs: the number of training runs that the person pays for each configuration.
        hand, auto: the hypervolumes of the baseline and of AutoLR on each seed of the report.
        result: the paired test of ``auto - hand``.
        collapse: the collapsed runs of the baseline.
        edge: the edge of the grid, if the best rate may lie beyond it; else None.
        p_holm: the p-value after Holm's correction; None if nothing can be concluded.
        bounds: the bounds of the mean difference, at 95% for all comparisons jointly; None if the rates were chosen on
            the seeds of the report.
        outcome: :data:`BETTER`, :data:`WORSE` and :data:`UNDECIDED` are about AutoLR. :data:`OPEN` means that the best
            rate is at the edge of the grid and AutoLR is not worse. The others are :data:`TOO_FEW`, :data:`DESCRIBED`.
        comparisons: the number of comparisons that are corrected jointly, including this one.
        primary: whether this is the primary question.
        further: the hypervolumes of both sides in each other reference box, keyed by its name and averaged over the
            seeds of the report. A box is left out if a trial was not measured.
    """

    name: str
    choice: Mapping[Configuration, float]
    runs: int
    hand: tuple[float, ...]
    auto: tuple[float, ...]
    result: PairedResult
    collapse: Collapse
    edge: GridEdge | None
    p_holm: float | None = None
    bounds: tuple[float, float] | None = None
    outcome: str = TOO_FEW
    comparisons: int = 1
    primary: bool = False
    further: Mapping[str, Sides] = field(default_factory=dict)

    @property
    def fresh_least(self) -> int:
        """The number of fresh seeds below which nothing can be decided, even if the differences are large."""
        return least_seeds(self.comparisons)

    @property
    def fresh_needed(self) -> int | None:
        """The fresh seeds needed to decide if every difference equaled the current mean; None if no number suffices."""
        return seeds_to_tell(self.result.mean, ALPHA / (2 * self.comparisons))


@dataclass(frozen=True, slots=True)
class Verdict:
    """One variant of AutoLR, compared with both baselines.

    Attributes:
        starts: the learning rates from which AutoLR started.
        of_starts: AutoLR's hypervolume for each start, averaged over the fresh seeds.
        rates: the fixed learning rates.
        tuning, fresh: the seeds used to choose the rates, and the seeds of the report; a single seed is used for both.
        left_out: the seeds on which AutoLR or hand-tuning has no complete front.
        planned: the fresh seeds that the report would use if no seed had been lost.
        lost: the planned seeds that were lost, for each side whose runs have no outcome.
        collapse: the collapsed runs of AutoLR on the fresh seeds.
        other_collapse: the collapsed runs of AutoLR on all other seeds (tuning seeds and left-out seeds).
        charge: AutoLR's cost in runs; ``charge_measured`` is true for a cost from training times, false for one from
            the number of probes.
        seeds_vary: ``order``, ``target`` or ``data``: what the seeds vary; "" if the studies disagree.
        updates: the median number of AutoLR updates in a run; None if unknown.
    """

    task: Task
    variant: str
    starts: tuple[float, ...]
    of_starts: tuple[float, ...]
    rates: tuple[float, ...]
    tuning: tuple[int, ...]
    fresh: tuple[int, ...]
    left_out: tuple[int, ...]
    planned: tuple[int, ...]
    lost: tuple[LostSeeds, ...]
    collapse: Collapse
    other_collapse: Collapse
    charge: float
    charge_measured: bool
    baselines: tuple[Baseline, ...]
    curve: TuningCurve
    updates: float | None = None
    seeds_vary: str = "order"

    @property
    def single(self) -> Baseline:
        """The comparison with the best single rate."""
        return self.baselines[0]

    @property
    def same_seeds(self) -> bool:
        """Whether the rates were chosen on the seeds of the report, which favors hand-tuning."""
        return self.tuning == self.fresh

    @property
    def asked(self) -> tuple[int, ...]:
        """The positions of the distinct baselines: the oracle is left out if it uses the best single rate for all
        configurations."""
        single, oracle = self.baselines
        return (0,) if single.choice == oracle.choice else (0, 1)

    @property
    def compared(self) -> tuple[Baseline, ...]:
        """The distinct baselines."""
        return tuple(self.baselines[place] for place in self.asked)

    @property
    def outcomes(self) -> tuple[tuple[str, str], ...]:
        """The name and outcome of each distinct baseline."""
        return tuple((item.name, item.outcome) for item in self.compared)

    @property
    def seed_counts(self) -> tuple[int, int, bool]:
        """The number of fresh seeds, the number planned, and whether the rates were chosen on the same seeds."""
        return len(self.fresh), len(self.planned), self.same_seeds

    @property
    def lost_seeds(self) -> int:
        """The number of planned fresh seeds that were lost."""
        return len({seed for item in self.lost for seed in item.seeds})

    @property
    def may_be_easier(self) -> bool:
        """Whether the remaining seeds may be the easier ones, because runs on other seeds ended without an outcome."""
        return any(how != MISSING for item in self.lost for how in item.how) and self.lost_seeds < len(self.planned)

    @property
    def start_decides(self) -> bool:
        """Whether AutoLR is more than 5% better than the best single rate from one start, and 5% worse from another."""
        hand = self.single_volume
        return min(self.of_starts) < (1 - WITHIN) * hand < (1 + WITHIN) * hand < max(self.of_starts)

    @property
    def single_volume(self) -> float:
        """The hypervolume of the best single rate, averaged over the seeds of the report."""
        return sum(self.single.hand) / len(self.single.hand)

    @property
    def few_updates(self) -> int | None:
        """The median number of AutoLR updates in a run if it is too small for AutoLR to adapt; else None."""
        once = self.variant.partition("/")[0] in SETS_ITS_RATE_ONCE
        return None if self.updates is None or self.updates >= FEW_UPDATES or once else round(self.updates)

    @property
    def collapse_counts(self) -> tuple[object, ...]:
        """The counts that a headline reports on collapsed runs; () if there is nothing to report."""
        sides = (self.collapse, self.single.collapse)
        if any(item.runs for item in (*sides, self.other_collapse)):
            others = (self.other_collapse, self.same_seeds, bool(self.left_out)) if self.other_collapse.runs else ()
            return (True, *((item.runs, item.of, item.runs_unknown) for item in sides), others)
        if not any(item.runs_unknown for item in sides):
            return ()
        return (False, *((item.of, item.runs_unknown) for item in sides))


def split_seeds(seeds: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tuning seeds (the lowest ``max(1, n // 3)``) and the fresh seeds (the others); one seed is both."""
    ordered = tuple(sorted(set(seeds)))
    if len(ordered) < 2:
        return ordered, ordered
    cut = max(1, len(ordered) // 3)
    return ordered[:cut], ordered[cut:]


def seeds_for(fresh: int) -> int:
    """Return the smallest number of seeds for which :func:`split_seeds` gives ``fresh`` fresh seeds."""
    count = fresh + 1
    while len(split_seeds(range(count))[1]) < fresh:
        count += 1
    return count


def least_seeds(comparisons: int) -> int:
    """Return the smallest number of fresh seeds that can decide one of ``comparisons``: every difference would be 1."""
    return seeds_to_tell(1.0, ALPHA / (2 * comparisons)) or 0
