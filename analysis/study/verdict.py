"""What is said of AutoLR against the learning rate a person would have tuned; judging.py finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from analysis.study.bounded_mean import seeds_to_tell
from analysis.study.grid_edge import GridEdge
from analysis.study.lost_seeds import LostSeeds
from analysis.study.paired import ALPHA, PairedResult
from analysis.study.placed_trials import Case, Setting
from analysis.study.ruin import Ruin
from analysis.study.tuning_curve import TuningCurve

BETTER, WORSE, UNDECIDED, TOO_FEW, OPEN = "better", "worse", "undecided", "too few seeds", "open"
DESCRIBED = "described"
"""The outcome by objectives that were chosen when the results were there, which decide nothing."""
SINGLE, ORACLE = "best single lr", "per-c oracle"


class Sides(NamedTuple):
    """Two means that are compared."""

    auto: float
    hand: float


@dataclass(frozen=True, slots=True)
class Opponent:
    """A hand-tuned side.

    Attributes:
        name: :data:`SINGLE` or :data:`ORACLE`.
        choice: the learning rate of every setting.
        runs: training runs the person pays for each setting.
        hand, auto: hypervolume on each seed of the report.
        result: of ``auto - hand``.
        ruin: of the hand-tuned side.
        edge: where the best rate may lie outside the grid; None where it lies inside.
        p_holm: the p-value after Holm's correction; None where nothing can be concluded.
        bounds: of the mean difference, at 95% for all comparisons together; None where the rates were chosen on the
            seeds of the report.
        outcome: AutoLR is :data:`BETTER`, :data:`WORSE`, :data:`UNDECIDED`, :data:`TOO_FEW`, :data:`OPEN` for a best
            rate at the edge of the grid than which it is not worse, or :data:`DESCRIBED`.
        comparisons: how many are corrected for together, itself included.
        primary: whether it is the question named beforehand.
        further: hypervolumes of both sides in other boxes, mean over the seeds of the report, by the box's name: a
            description. Left out where a trial was not measured.
    """

    name: str
    choice: Mapping[Setting, float]
    runs: int
    hand: tuple[float, ...]
    auto: tuple[float, ...]
    result: PairedResult
    ruin: Ruin
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
        """The fresh seeds that would decide if every seed differed by the present mean; None where no number does."""
        return seeds_to_tell(self.result.mean, ALPHA / (2 * self.comparisons))


@dataclass(frozen=True, slots=True)
class Verdict:
    """AutoLR in one variant against both opponents.

    Attributes:
        starts: the learning rates AutoLR was started from.
        of_starts: the hypervolume from each, mean over the fresh seeds.
        rates: the fixed ones.
        tuning, fresh: the seeds of the choice and of the report; with one seed it serves for both.
        left_out: seeds on which one side has no whole front.
        planned: the fresh seeds, had none been lost.
        lost: those of them that were, by the side whose runs have no outcome there.
        ruin: of AutoLR on the fresh seeds.
        other_ruin: of AutoLR on its other seeds, those of tuning and those left out: it tunes nothing on either.
        charge: AutoLR's cost in runs; ``charge_measured`` says whether from training times or from its probes.
        seeds_vary: what the seeds vary, ``order``, ``target`` or ``data``, or "" where studies differ in it.
        updates: how often a run of AutoLR set its rate, the median; None where the table does not say.
    """

    case: Case
    variant: str
    starts: tuple[float, ...]
    of_starts: tuple[float, ...]
    rates: tuple[float, ...]
    tuning: tuple[int, ...]
    fresh: tuple[int, ...]
    left_out: tuple[int, ...]
    planned: tuple[int, ...]
    lost: tuple[LostSeeds, ...]
    ruin: Ruin
    other_ruin: Ruin
    charge: float
    charge_measured: bool
    opponents: tuple[Opponent, ...]
    curve: TuningCurve
    updates: float | None = None
    seeds_vary: str = "order"

    @property
    def same_seeds(self) -> bool:
        """Whether the choice was made on the seeds of the report, which flatters hand-tuning."""
        return self.tuning == self.fresh

    @property
    def others_in_words(self) -> str:
        """AutoLR's seeds that are no fresh ones: ``tuning and left-out seeds``."""
        parts = ["tuning"] * (not self.same_seeds) + ["left-out"] * bool(self.left_out)
        return f"{' and '.join(parts)} seeds"

    @property
    def asked(self) -> tuple[int, ...]:
        """The places of the opponents that ask a question of their own: an oracle that takes the best single rate for
        every setting does not."""
        single, oracle = self.opponents
        return (0,) if single.choice == oracle.choice else (0, 1)


def split_seeds(seeds: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tuning and fresh seeds: in rising order the first ``max(1, n // 3)``, and the rest; one seed is both."""
    ordered = tuple(sorted(set(seeds)))
    if len(ordered) < 2:
        return ordered, ordered
    cut = max(1, len(ordered) // 3)
    return ordered[:cut], ordered[cut:]


def seeds_for(fresh: int) -> int:
    """The fewest seeds that :func:`split_seeds` leaves so many fresh ones of."""
    count = fresh + 1
    while len(split_seeds(range(count))[1]) < fresh:
        count += 1
    return count


def least_seeds(comparisons: int) -> int:
    """The fewest fresh seeds with which one of so many comparisons can be decided: if all differ by 1."""
    return seeds_to_tell(1.0, ALPHA / (2 * comparisons)) or 0
