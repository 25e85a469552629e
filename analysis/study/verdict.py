"""AutoLR against the learning rate a person would have tuned, on the same seeds and at stated cost.

The rules, for one method on one model and data set:

- A seed contributes one number to each side: the hypervolume of its front over c. AutoLR's is the mean over the rates
  it was started from, so that nothing about it is tuned.
- Seeds are split beforehand, in rising order: the first ``max(1, n // 3)`` are for tuning, the others fresh. The
  person's rates are chosen on the tuning seeds; every difference is taken on fresh ones. A seed without whole fronts on
  both sides drops out of its own part, and no other changes sides for it.
- Two opponents: the best single rate for all c (L runs per c), and the per-c oracle, which takes for every c its own
  rate so that the front's mean hypervolume on the tuning seeds is largest (the same L runs per c, used better).
- Two-sided exact sign-flip test on the paired differences; Holm over models and data sets, each method, variant and
  opponent being a question of its own. Where even differences of one sign could not reach 5% after the correction,
  nothing is concluded.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.frontier.frontier import hypervolume
from analysis.study.lr_grid import LrGrid, Unit
from analysis.study.paired import ALPHA, PairedResult, holm, least_pairs, paired, smallest_p
from analysis.study.placed_trials import Case, Setting
from analysis.study.probe_cost import auto_lr_charge
from analysis.study.tuning_curve import TuningCurve, tuning_curve

BETTER, WORSE, UNDECIDED, TOO_FEW = "better", "worse", "undecided", "too few seeds"
SINGLE, ORACLE = "best single lr", "per-c oracle"
_MOST_ASSIGNMENTS = 4096


@dataclass(frozen=True, slots=True)
class Opponent:
    """A hand-tuned side.

    Attributes:
        name: :data:`SINGLE` or :data:`ORACLE`.
        choice: the learning rate of every setting.
        runs: training runs the person pays for each setting.
        hand, auto: hypervolume on each seed of the report.
        result: of ``auto - hand``.
        p_holm: the p-value after Holm's correction; None where there are too few seeds.
        comparisons: the models and data sets that this question is asked of, itself included.
        outcome: AutoLR is :data:`BETTER`, :data:`WORSE`, :data:`UNDECIDED`, or :data:`TOO_FEW`.
    """

    name: str
    choice: Mapping[Setting, float]
    runs: int
    hand: tuple[float, ...]
    auto: tuple[float, ...]
    result: PairedResult
    p_holm: float | None
    outcome: str
    comparisons: int

    @property
    def fresh_needed(self) -> int:
        """The fresh seeds that each of the comparisons needs before one of them can come out significant."""
        return least_pairs(self.comparisons)


@dataclass(frozen=True, slots=True)
class Verdict:
    """AutoLR in one variant against both opponents.

    Attributes:
        starts: the learning rates AutoLR was started from.
        rates: the fixed ones.
        tuning, fresh: the seeds of the choice and of the report; with one seed it serves for both.
        left_out: seeds on which one side has no whole front.
        charge: AutoLR's cost in runs; ``charge_measured`` says whether from training times or from its probes.
    """

    case: Case
    variant: str
    starts: tuple[float, ...]
    rates: tuple[float, ...]
    tuning: tuple[int, ...]
    fresh: tuple[int, ...]
    left_out: tuple[int, ...]
    charge: float
    charge_measured: bool
    opponents: tuple[Opponent, ...]
    curve: TuningCurve

    @property
    def same_seeds(self) -> bool:
        """Whether the choice was made on the seeds of the report, which flatters hand-tuning."""
        return self.tuning == self.fresh


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


def verdicts_data(grid: LrGrid) -> tuple[Verdict, ...]:
    """A verdict for every method, model, data set and AutoLR variant that has seeds with whole fronts on both sides."""
    found = [
        verdict
        for case in grid.cases
        for variant in grid.variants(case)
        if (verdict := _verdict(grid, case, variant)) is not None
    ]
    return tuple(_corrected(found))


def _verdict(grid: LrGrid, case: Case, variant: str) -> Verdict | None:
    hand, auto = grid.arm(case), grid.arm(case, variant)
    everyone = sorted({seed for units in (*hand.values(), *auto.values()) for seed in units})
    whole = {
        seed
        for seed in everyone
        if all(seed in units and not units[seed].missing for units in (*hand.values(), *auto.values()))
    }
    if not hand or not whole:
        return None
    tuning, fresh = (tuple(seed for seed in part if seed in whole) for part in split_seeds(everyone))
    if not tuning or not fresh:
        tuning = fresh = tuple(sorted(whole))
    of_auto = tuple(float(np.mean([units[seed].hypervolume for units in auto.values()])) for seed in fresh)
    rates = tuple(hand)
    choice = [float(np.mean([hand[lr][seed].hypervolume for seed in tuning])) for lr in rates]
    report = [float(np.mean([hand[lr][seed].hypervolume for seed in fresh])) for lr in rates]
    best = rates[int(np.argmax(choice))]
    settings = tuple(hand[best][fresh[0]].costs)
    single = dict.fromkeys(settings, best)
    charge, was_measured = auto_lr_charge(hand, auto)
    opponents = tuple(
        _opponent(name, chosen, hand, of_auto, fresh)
        for name, chosen in ((SINGLE, single), (ORACLE, _oracle(hand, single, tuning)))
    )
    curve = tuning_curve(choice, float(np.mean(of_auto)), report=report, charge=charge)
    left_out = tuple(seed for seed in everyone if seed not in whole)
    return Verdict(case, variant, tuple(auto), rates, tuning, fresh, left_out, charge, was_measured, opponents, curve)


def _opponent(
    name: str,
    choice: Mapping[Setting, float],
    hand: Mapping[float, Mapping[int, Unit]],
    auto: tuple[float, ...],
    fresh: Sequence[int],
) -> Opponent:
    of_hand = tuple(_volume(hand, choice, seed) for seed in fresh)
    result = paired(np.subtract(auto, of_hand))
    return Opponent(name, choice, len(hand), of_hand, auto, result, None, TOO_FEW, 1)


def _oracle(
    hand: Mapping[float, Mapping[int, Unit]], single: Mapping[Setting, float], tuning: Sequence[int]
) -> dict[Setting, float]:
    """For every setting its own rate, to the largest mean hypervolume on the tuning seeds.

    Exact where there are few enough assignments, else by improving one setting at a time from the best single rate.
    """
    rates, settings = tuple(hand), tuple(single)

    def mean_volume(choice: Mapping[Setting, float]) -> float:
        return float(np.mean([_volume(hand, choice, seed) for seed in tuning]))

    best, top = dict(single), mean_volume(single)
    if len(rates) ** len(settings) <= _MOST_ASSIGNMENTS:
        for assigned in itertools.product(rates, repeat=len(settings)):
            choice = dict(zip(settings, assigned, strict=True))
            if (volume := mean_volume(choice)) > top:
                best, top = choice, volume
        return best
    improved = True
    while improved:
        improved = False
        for setting, rate in itertools.product(settings, rates):
            choice = best | {setting: rate}
            if (volume := mean_volume(choice)) > top:
                best, top, improved = choice, volume, True
    return best


def _volume(hand: Mapping[float, Mapping[int, Unit]], choice: Mapping[Setting, float], seed: int) -> float:
    costs = [hand[rate][seed].trials[setting].costs for setting, rate in choice.items()]
    finished = [item for item in costs if item is not None]
    return hypervolume(np.stack(finished)) if finished else 0.0


def _corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Holm over the models and data sets of each (method, variant, opponent), and the outcomes that follow."""
    families: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for row, verdict in enumerate(verdicts):
        for column, opponent in enumerate(verdict.opponents):
            families.setdefault((verdict.case.method, verdict.variant, opponent.name), []).append((row, column))
    found = [list(verdict.opponents) for verdict in verdicts]
    for places in families.values():
        for row, column in places:
            found[row][column] = replace(found[row][column], comparisons=len(places))
        # What cannot be tested at all is no burden to the others; that is known before any difference is.
        tested = [(row, column) for row, column in places if not verdicts[row].same_seeds]
        tested = [(row, column) for row, column in tested if found[row][column].result.enough]
        results = [found[row][column].result for row, column in tested]
        adjusted = holm([result.p for result in results if result.p is not None])
        # Holm's adjusted values rise with each of the p-values, so these are the least that could come out.
        reachable = holm([smallest_p(result.n) for result in results])
        for (row, column), result, p, least in zip(tested, results, adjusted, reachable, strict=True):
            if least < ALPHA:
                outcome = UNDECIDED if p >= ALPHA else BETTER if result.mean > 0 else WORSE
                found[row][column] = replace(found[row][column], p_holm=p, outcome=outcome)
    return [replace(verdict, opponents=tuple(opponents)) for verdict, opponents in zip(verdicts, found, strict=True)]
