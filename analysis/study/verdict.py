"""The classes for a verdict on AutoLR against hand-tuned learning rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from analysis.study.collapse import Collapse
from analysis.study.hand_tuning import EdgeOptimum
from analysis.study.paired import ALPHA, PairedResult, seeds_to_tell
from analysis.study.study_runs import Configuration, MethodTask
from analysis.study.tuning_curve import TuningCurve
from analysis.tables.note import Note

BETTER, WORSE, UNDECIDED, TOO_FEW, AT_EDGE = "better", "worse", "undecided", "too few seeds", "open"
DESCRIBED = "described"
"""The outcome if the objectives were chosen after the results were known. Nothing is tested."""
SINGLE, ORACLE = "best single lr", "per-c oracle"
WITHIN = 0.05
"""A hypervolume is near the best hypervolume if it is lower by at most this fraction of the best hypervolume."""
FEW_UPDATES = 5
"""If a run has fewer AutoLR updates than this number, its result depends mostly on the initial rate."""
SETS_ITS_RATE_ONCE = ("curvature",)
"""The AutoLR rules that choose the rate at their first update, independently of the initial rate."""


class Sides(NamedTuple):
    """The mean hypervolumes of AutoLR and of a hand-tuned baseline in one reference box."""

    auto: float
    hand: float


def is_primary_question(primary: str, method: str, variant: str) -> bool:
    """Return whether the primary question is about this method and this AutoLR variant.

    The primary question is whether AutoLR beats the best single learning rate for one method, which the user names
    before the results are known.

    Args:
        primary: the method or, if AutoLR has several variants, the method and the variant, such as ``ngdiff`` or
            ``ngdiff/gen/same``; "" if no question was named.
        variant: the variant of AutoLR; "" if AutoLR was not run.
    """
    named_method, _, named_variant = primary.partition("/")
    return method == named_method and (not variant or named_variant in ("", variant))


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """The reason why a task and AutoLR variant have no verdict. ``variant`` is "" if AutoLR was not run."""

    method_task: MethodTask
    variant: str
    why: Note


@dataclass(frozen=True, slots=True)
class Baseline:
    """A hand-tuned baseline and its comparison with AutoLR. Reports and lr_study.json show the fields.

    Attributes:
        name: :data:`SINGLE` or :data:`ORACLE`.
        choice: the chosen learning rate of each configuration.
        hand: the hypervolume of the baseline on each fresh seed.
        auto: the hypervolume of AutoLR on each fresh seed.
        result: the paired test of ``auto - hand``.
        edge: the edges of the grid (lowest or highest rate) that are best rates; None if the best rate is an inner
            rate.
        further: the mean hypervolumes in each additional reference box. Boxes with unmeasured scores are left out.
        p_holm: the p-value after Holm's correction; None without a conclusion (see ``outcome``).
        bounds: the joint 95% confidence bounds of the mean difference for all comparisons; None if the rates were
            chosen on the fresh seeds, or if the verdict is only descriptive.
        outcome: the conclusion about AutoLR: :data:`BETTER`, :data:`WORSE` or :data:`UNDECIDED`. Without a conclusion:
            :data:`AT_EDGE` (a rate outside the grid may be better), :data:`TOO_FEW` (too few seeds) or
            :data:`DESCRIBED` (nothing was tested).
        comparisons: the number of comparisons that are corrected together.
        primary: whether this comparison answers the primary question (:func:`is_primary_question`).
    """

    name: str
    choice: Mapping[Configuration, float]
    hand: tuple[float, ...]
    auto: tuple[float, ...]
    result: PairedResult
    collapse: Collapse
    edge: EdgeOptimum | None
    further: Mapping[str, Sides]
    p_holm: float | None = None
    bounds: tuple[float, float] | None = None
    outcome: str = TOO_FEW
    comparisons: int = 1
    primary: bool = False

    @property
    def fresh_least(self) -> int:
        """The smallest number of fresh seeds that allows a decision (:func:`least_seeds`)."""
        return least_seeds(self.comparisons)

    @property
    def fresh_needed(self) -> int | None:
        """The number of fresh seeds that allows a decision if each difference equals the mean; None above 10^6."""
        return seeds_to_tell(self.result.mean, ALPHA / (2 * self.comparisons))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of an AutoLR variant with both hand-tuned baselines. Reports and lr_study.json show the fields.

    Attributes:
        starts: the initial rates of AutoLR.
        of_starts: AutoLR's hypervolume for each initial rate, averaged over the fresh seeds.
        tuning: the seeds on which the hand-tuned rates were chosen.
        fresh: the seeds on which AutoLR and the baselines are compared. If ``tuning`` or ``fresh`` would be empty, both
            have all seeds with complete fronts.
        left_out: the seeds on which a front of AutoLR or of a fixed rate is missing or incomplete.
        planned: all seeds of the split's second part. ``fresh`` lacks those with a missing or incomplete front.
        collapse: the number of collapsed runs of AutoLR on the fresh seeds.
        other_collapse: the number of collapsed runs of AutoLR on the seeds that are not in ``fresh``.
        seeds_vary: what the seed of a run changes (:attr:`SweepFile.seeds_vary`).
        updates: the median number of AutoLR updates in a run; None if unknown.
    """

    method_task: MethodTask
    variant: str
    starts: tuple[float, ...]
    of_starts: tuple[float, ...]
    rates: tuple[float, ...]
    tuning: tuple[int, ...]
    fresh: tuple[int, ...]
    left_out: tuple[int, ...]
    planned: tuple[int, ...]
    collapse: Collapse
    other_collapse: Collapse
    baselines: tuple[Baseline, ...]
    curve: TuningCurve
    updates: float | None
    seeds_vary: str

    @property
    def single(self) -> Baseline:
        """The comparison of AutoLR with the best single rate."""
        return self.baselines[0]

    @property
    def same_seeds(self) -> bool:
        """Whether the hand-tuned rates were chosen on the seeds of the comparison, which favours hand-tuning."""
        return self.tuning == self.fresh

    @property
    def compared(self) -> tuple[Baseline, ...]:
        """The distinct baselines. The oracle is left out if it equals the best single rate."""
        single, oracle = self.baselines
        return (single,) if single.choice == oracle.choice else (single, oracle)

    @property
    def lost(self) -> int:
        """The number of planned fresh seeds that were left out."""
        return len(set(self.planned) & set(self.left_out))

    @property
    def single_volume(self) -> float:
        """The hypervolume at the best fixed learning rate, averaged over the fresh seeds."""
        return sum(self.single.hand) / len(self.single.hand)

    @property
    def start_decides(self) -> bool:
        """Whether AutoLR is over 5% better than the best fixed rate with one initial rate, and over 5% worse with
        another one.
        """
        hand = self.single_volume
        return min(self.of_starts) < (1 - WITHIN) * hand < (1 + WITHIN) * hand < max(self.of_starts)

    @property
    def has_few_updates(self) -> bool:
        """Whether AutoLR updated its rate too rarely to adapt."""
        once = self.variant.partition("/")[0] in SETS_ITS_RATE_ONCE
        return self.updates is not None and self.updates < FEW_UPDATES and not once


def split_seeds(seeds: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split n seeds into tuning seeds (the lowest ``max(1, n // 3)``) and fresh seeds (the rest).

    A single seed is both a tuning seed and a fresh seed.
    """
    ordered = tuple(sorted(set(seeds)))
    if len(ordered) < 2:
        return ordered, ordered
    cut = max(1, len(ordered) // 3)
    return ordered[:cut], ordered[cut:]


def seeds_for(fresh: int) -> int:
    """Return the smallest number of seeds that :func:`split_seeds` splits into at least ``fresh`` fresh seeds."""
    count = fresh + 1
    while len(split_seeds(range(count))[1]) < fresh:
        count += 1
    return count


def least_seeds(comparisons: int) -> int:
    """Return the smallest number of fresh seeds that can decide one of several comparisons that are corrected together.

    With this number of seeds, a decision requires the largest possible difference, 1, on every seed.
    """
    return seeds_to_tell(1.0, ALPHA / (2 * comparisons)) or 0
