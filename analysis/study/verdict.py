"""A verdict on AutoLR against the learning rate a person would have tuned, as facts; judging.py computes it."""

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
"""The outcome by objectives that were chosen when the results were known; it decides nothing."""
SINGLE, ORACLE = "best single lr", "per-c oracle"
WITHIN = 0.05
"""Hypervolumes within this share of the best are near it."""
FEW_UPDATES = 5
"""With fewer updates in a run, AutoLR's start decides most."""
SETS_ITS_RATE_ONCE = ("safe",)
"""Rules that choose the rate at their first update, wherever they start."""
MISSING = "are missing"


class Sides(NamedTuple):
    """Two means that are compared."""

    auto: float
    hand: float


@dataclass(frozen=True, slots=True)
class Primary:
    """The primary question, named before there are results: whether AutoLR beats the best single lr with one method.

    ``variant`` is AutoLR's, "" if there is only one. The question is not corrected for the other comparisons.
    """

    method: str
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> Primary:
        """``ngdiff``, or with one of several variants of AutoLR ``ngdiff/safe/freshx4``."""
        method, _, variant = text.strip().partition("/")
        return cls(method, variant)

    def __str__(self) -> str:
        return f"{self.method}/{self.variant}" if self.variant else self.method

    def asks(self, method: str, variant: str) -> bool:
        """Whether this is the question of a method and a variant of AutoLR, "" if AutoLR was not run."""
        return method == self.method and (not variant or self.variant in ("", variant))


@dataclass(frozen=True, slots=True)
class LostSeeds:
    """The ``seeds`` on which one side lacks a whole front, and ``how`` its runs were lost there."""

    side: str
    seeds: tuple[int, ...]
    how: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """A method and a variant of AutoLR, "" if there is no run with it, without a verdict, and ``why``."""

    task: Task
    variant: str
    why: Note


@dataclass(frozen=True, slots=True)
class Baseline:
    """A hand-tuned side.

    Attributes:
        name: :data:`SINGLE` or :data:`ORACLE`.
        choice: the learning rate of every configuration.
        runs: training runs the person pays for each configuration.
        hand, auto: hypervolume on each seed of the report.
        result: of ``auto - hand``.
        collapse: of the hand-tuned side.
        edge: the end of the grid beyond which the best rate may lie; None if it lies inside.
        p_holm: the p-value after Holm's correction; None if nothing can be concluded.
        bounds: of the mean difference, at 95% for all comparisons together; None if the rates were chosen on the seeds
            of the report.
        outcome: AutoLR is :data:`BETTER`, :data:`WORSE`, :data:`UNDECIDED`, :data:`TOO_FEW`, :data:`OPEN` for a best
            rate at the edge of the grid than which it is not worse, or :data:`DESCRIBED`.
        comparisons: how many are corrected for together, this one included.
        primary: whether this is the primary question.
        further: hypervolumes of both sides in other reference boxes, mean over the seeds of the report, by name: a
            description. Left out if a trial was not measured.
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
        """The fresh seeds below which nothing can be decided, however large the differences."""
        return least_seeds(self.comparisons)

    @property
    def fresh_needed(self) -> int | None:
        """The fresh seeds that would decide if every seed differed by the present mean; None if no number does."""
        return seeds_to_tell(self.result.mean, ALPHA / (2 * self.comparisons))


@dataclass(frozen=True, slots=True)
class Verdict:
    """AutoLR in one variant against both baselines.

    Attributes:
        starts: the learning rates AutoLR was started from.
        of_starts: the hypervolume from each, mean over the fresh seeds.
        rates: the fixed ones.
        tuning, fresh: the seeds of the choice and of the report; with one seed it serves for both.
        left_out: seeds on which one side has no whole front.
        planned: the fresh seeds, had none been lost.
        lost: the planned seeds that were lost, by the side whose runs have no outcome there.
        collapse: of AutoLR on the fresh seeds.
        other_collapse: of AutoLR on its other seeds, those of tuning and those left out: it tunes nothing on either.
        charge: AutoLR's cost in runs; ``charge_measured`` says whether from training times or from its probes.
        seeds_vary: what the seeds vary, ``order``, ``target`` or ``data``, or "" if studies differ in it.
        updates: how often a run of AutoLR set its rate, the median; None if the table does not say.
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
        """The best single rate."""
        return self.baselines[0]

    @property
    def same_seeds(self) -> bool:
        """Whether the choice was made on the seeds of the report, which flatters hand-tuning."""
        return self.tuning == self.fresh

    @property
    def asked(self) -> tuple[int, ...]:
        """The places of the baselines that ask a question of their own: an oracle that takes the best single rate for
        every configuration does not."""
        single, oracle = self.baselines
        return (0,) if single.choice == oracle.choice else (0, 1)

    @property
    def compared(self) -> tuple[Baseline, ...]:
        """The baselines that ask a question of their own."""
        return tuple(self.baselines[place] for place in self.asked)

    @property
    def outcomes(self) -> tuple[tuple[str, str], ...]:
        """The name and outcome of each baseline compared."""
        return tuple((item.name, item.outcome) for item in self.compared)

    @property
    def seed_counts(self) -> tuple[int, int, bool]:
        """How many seeds the verdict rests on and how many were planned, and whether they also chose the rates."""
        return len(self.fresh), len(self.planned), self.same_seeds

    @property
    def lost_seeds(self) -> int:
        """How many of the planned fresh seeds were lost."""
        return len({seed for item in self.lost for seed in item.seeds})

    @property
    def may_be_easier(self) -> bool:
        """Whether the seeds that are left may be the easier ones: some, but not all, ended without an outcome."""
        return any(how != MISSING for item in self.lost for how in item.how) and self.lost_seeds < len(self.planned)

    @property
    def start_decides(self) -> bool:
        """Whether AutoLR is ahead of the best single rate or behind it, by more than 5%, depending on its start."""
        hand = self.single_volume
        return min(self.of_starts) < (1 - WITHIN) * hand < (1 + WITHIN) * hand < max(self.of_starts)

    @property
    def single_volume(self) -> float:
        """The hypervolume of the best single rate, mean over the seeds of the report."""
        return sum(self.single.hand) / len(self.single.hand)

    @property
    def few_updates(self) -> int | None:
        """The updates of a run if they are too few to adapt; else None."""
        once = self.variant.partition("/")[0] in SETS_ITS_RATE_ONCE
        return None if self.updates is None or self.updates >= FEW_UPDATES or once else round(self.updates)

    @property
    def collapse_counts(self) -> tuple[object, ...]:
        """What a headline reports on collapsed runs: equal for verdicts that share the sentence; () for none."""
        sides = (self.collapse, self.single.collapse)
        if any(item.runs for item in (*sides, self.other_collapse)):
            others = (self.other_collapse, self.same_seeds, bool(self.left_out)) if self.other_collapse.runs else ()
            return (True, *((item.runs, item.of, item.runs_unknown) for item in sides), others)
        if not any(item.runs_unknown for item in sides):
            return ()
        return (False, *((item.of, item.runs_unknown) for item in sides))


def split_seeds(seeds: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tuning and fresh seeds: in rising order the first ``max(1, n // 3)``, and the rest; one seed is both."""
    ordered = tuple(sorted(set(seeds)))
    if len(ordered) < 2:
        return ordered, ordered
    cut = max(1, len(ordered) // 3)
    return ordered[:cut], ordered[cut:]


def seeds_for(fresh: int) -> int:
    """The fewest seeds of which :func:`split_seeds` leaves so many fresh ones."""
    count = fresh + 1
    while len(split_seeds(range(count))[1]) < fresh:
        count += 1
    return count


def least_seeds(comparisons: int) -> int:
    """The fewest fresh seeds with which one of so many comparisons can be decided: if all differ by 1."""
    return seeds_to_tell(1.0, ALPHA / (2 * comparisons)) or 0
