"""The classes for a verdict on an automatic rate against hand-tuned learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from analysis.study.hand_tuning import EdgeOptimum
from analysis.study.paired import Share
from analysis.study.study_runs import MethodTask
from analysis.tables.note import Note

T = TypeVar("T")
MARGIN = 0.02
"""An automatic rate is as good as the best fixed rate if their qualities differ by less than this margin."""
WITHIN = 0.05
"""A hypervolume is near the best hypervolume if it is lower by at most this fraction of the best hypervolume."""


class Outcome(StrEnum):
    """The conclusion about an automatic rate against the best hand-tuned rate."""

    BETTER = "better"
    """The automatic rate is better than every fixed rate."""
    AS_GOOD = "as_good"
    """The automatic rate is as good as the best fixed rate, up to :data:`MARGIN`."""
    WORSE = "worse"
    UNDECIDED = "undecided"
    OPEN = "open"
    """The best fixed rate is at an edge of the grid, so a rate outside the grid may be better."""


@dataclass(frozen=True, slots=True)
class Pair(Generic[T]):
    """A fact about the automatic rate and about the best fixed rate."""

    auto: T
    hand: T


@dataclass(frozen=True, slots=True)
class Runs:
    """The number of collapsed runs among ``of`` runs."""

    runs: int
    of: int

    @property
    def share(self) -> float:
        return self.runs / self.of


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one result on one seed. Hand-tuning needs a run with each rate of the grid.

    Attributes:
        seconds: the seconds of training and of the evaluations that the runs needed for their decisions; NaN if
            unknown.
    """

    seconds: float
    runs: int


@dataclass(frozen=True, slots=True)
class Quality:
    """The difference in quality (automatic minus fixed) on the seeds where neither side collapsed.

    Attributes:
        measure: the metric, such as ``utility``.
        low, high: the paired-t 95% interval of the mean difference.
        p: the p-value for "better than every fixed rate": the largest one over all rates, not corrected.
        seeds: the number of seeds where neither side collapsed.
    """

    measure: str
    difference: float
    low: float
    high: float
    p: float
    seeds: int


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The test of "as good as the best fixed rate up to ``margin``", with its uncorrected p-value."""

    margin: float
    p: float


@dataclass(frozen=True, slots=True)
class Updates:
    """How many of the scheduled updates of the learning rate were accepted, in all runs together."""

    accepted: int
    of: int


@dataclass(frozen=True, slots=True)
class RateResult:
    """The result of a fixed rate: its mean quality (0 for a collapsed run), and the share of successful seeds."""

    lr: float
    quality: float
    success: float


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """The reason why a comparison has no verdict. ``variant`` is "" if no automatic rate was run."""

    method_task: MethodTask
    method: str
    variant: str
    why: Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The comparison of an automatic rate with the best fixed rate, for one method with one configuration.

    Attributes:
        method: the method with the option values that vary, such as ``gdiff c=0.9``.
        rule: the value of ``--auto-lr``.
        variant: the rule and its probe, such as ``gen/same``.
        rule_settings: the other settings of the rule, such as ``auto_lr_every``.
        split: the forget split; "" if the data set has none.
        starts: the initial rates of the automatic rate.
        seeds: the seeds of the comparison. Each seed is one unit; its runs from several starts are averaged.
        left_out: the seeds on which a run has no result.
        copies: the seeds that repeat all results of an earlier seed, and are not counted.
        repeated_starts: the number of runs that repeat a run from another start on the same seed, and are not counted.
        seeds_vary: what the seed of a run changes (:attr:`SweepFile.seeds_vary`).
        best_lr: the fixed rate with the highest mean quality.
        edge: the edges of the grid that are best rates; None if the best rate is an inner rate.
        auto: the mean quality of the automatic rate on each seed, in which a collapsed run counts as 0.
        success: the seeds on which most runs succeeded; None if success is unknown.
        updates: the accepted updates of the learning rate; None if unknown.
        detectable: the smallest difference in quality that these seeds show with power 0.8; NaN if none.
        spread: the standard deviation of the difference in quality between seeds; NaN for fewer than two seeds.
        p_worse: the p-value of "worse than the best rate", corrected for the choice of the rate and of the endpoint.
        p: the p-value of the strongest claim after Holm's correction for all comparisons of the study.
        comparisons: the number of comparisons that are corrected together.
        primary: whether this is the primary comparison, which is tested first.
    """

    method_task: MethodTask
    method: str
    rule: str
    variant: str
    rule_settings: Mapping[str, object]
    split: str
    starts: tuple[float, ...]
    seeds: tuple[int, ...]
    left_out: tuple[int, ...]
    copies: tuple[int, ...]
    repeated_starts: int
    seeds_vary: str
    best_lr: float
    edge: EdgeOptimum | None
    rates: tuple[RateResult, ...]
    auto: tuple[float, ...]
    success: Pair[Share] | None
    collapse: Pair[Runs]
    quality: Quality
    equivalence: Equivalence
    cost: Pair[Cost]
    updates: Updates | None
    spread: float
    p_worse: float
    outcome: Outcome = Outcome.UNDECIDED
    p: float = math.nan
    comparisons: int = 1
    detectable: float = math.nan
    primary: bool = False

    @property
    def never_changed(self) -> bool:
        """Whether the rule never changed its rate, so all runs kept their initial rates."""
        return self.updates is not None and not self.updates.accepted

    @property
    def p_claim(self) -> float:
        """The uncorrected p-value of the strongest claim: better, worse (two-sided together) or as good."""
        return min(1.0, 2 * self.quality.p, 2 * self.p_worse, self.equivalence.p)

    @property
    def subject(self) -> str:
        """The comparison as text, such as ``ngdiff on tiny-phi, authors, AutoLR gen/same``."""
        return f"{self.method} on {self.method_task.task}, AutoLR {self.variant}"

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a figure's file name, without empty words."""
        task = self.method_task.task
        return tuple(filter(None, (task.model, task.dataset, self.method, task.apart, self.variant)))
