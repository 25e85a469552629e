"""AutoLR against the learning rate a person would have tuned, on the same seeds and at stated cost.

The rules, for one method on one model and data set:

- A seed contributes one number to each side: the hypervolume of its front over c. AutoLR's is the mean over the rates
  it was started from, so that nothing about it is tuned.
- Seeds are split beforehand, in rising order: the first ``max(1, n // 3)`` are for tuning, the others fresh. The
  person's rates are chosen on the tuning seeds; every difference is taken on fresh ones.
- Two opponents: the best single rate for all c (L runs per c), and the per-c oracle, which takes for every c its own
  rate so that the front's mean hypervolume on the tuning seeds is largest (the same L runs per c, used better).
- Two-sided exact sign-flip test on the paired differences; Holm over models and data sets, each method, variant and
  opponent being a question of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.cells import Problem, Setting
from analysis.frontier import hypervolume
from analysis.lr_grid import LrGrid, Unit
from analysis.paired import LEAST_PAIRS, PairedResult, holm, paired
from analysis.tuning_curve import PROBE_CHARGE, TuningCurve, tuning_curve
from analysis.words import counted

BETTER, WORSE, UNDECIDED, TOO_FEW = "better", "worse", "undecided", "too few seeds"
SINGLE, ORACLE = "best single lr", "per-c oracle"
ALPHA = 0.05
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """AutoLR in one variant against both opponents.

    Attributes:
        starts: the learning rates AutoLR was started from.
        rates: the fixed ones.
        tuning, fresh: the seeds of the choice and of the report; with one seed it serves for both.
        left_out: seeds on which one side has no whole front.
        charge: AutoLR's cost in runs; ``charge_measured`` says whether from training times or from FLOPs.
    """

    problem: Problem
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


def verdicts_data(grid: LrGrid) -> tuple[Verdict, ...]:
    """A verdict for every method, model, data set and AutoLR variant that has seeds with whole fronts on both sides."""
    found = [
        verdict
        for problem in grid.problems
        for variant in grid.variants(problem)
        if (verdict := _verdict(grid, problem, variant)) is not None
    ]
    return tuple(_corrected(found))


def words(verdict: Verdict) -> tuple[str, ...]:
    """What can be said, and what cannot, in sentences."""
    name = f"{verdict.problem.method} on {verdict.problem.model}, {verdict.problem.dataset}"
    lines = []
    for opponent in verdict.opponents:
        result = opponent.result
        if opponent.name == ORACLE and len(opponent.choice) < 2:
            continue  # with one setting the oracle is the best single rate
        against = f"the {opponent.name}"
        if opponent.name == SINGLE:
            against = f"the best single lr ({next(iter(opponent.choice.values())):g})"
        interval = ""
        if result.low is not None:
            interval = f", 95% interval {result.low:+.4f} to {result.high:+.4f}"
        difference = f"hypervolume {result.mean:+.4f}{interval}"
        if opponent.outcome == TOO_FEW:
            lines.append(
                f"{name}: nothing can be concluded about AutoLR {verdict.variant} against {against} from "
                f"{counted(result.n, 'fresh seed')}: a two-sided test at 5% needs {LEAST_PAIRS} (--seeds 8). "
                f"So far: {difference}"
            )
        else:
            said = {BETTER: "is better than", WORSE: "is worse than", UNDECIDED: "is not shown to differ from"}
            lines.append(
                f"{name}: AutoLR {verdict.variant} {said[opponent.outcome]} {against}: {difference}, "
                f"p = {opponent.p_holm:.3g} (exact sign-flip, Holm) over {counted(result.n, 'fresh seed')}"
            )
    lines.append(f"{name}: {curve_in_words(verdict.curve)}")
    lines.append(_seeds_in_words(verdict))
    return tuple(lines)


def curve_in_words(curve: TuningCurve) -> str:
    """``AutoLR, charged 1.03 runs, equals the best of 2.4 hand-picked learning rates``."""
    cost = f"AutoLR, charged {curve.charge:.2f} runs,"
    if math.isinf(curve.equals):
        return f"{cost} does not reach the best of all {len(curve.picks)} learning rates tried"
    if curve.expected[0] >= curve.auto:
        return f"{cost} does no better than one learning rate picked at random"
    return f"{cost} equals the best of {curve.equals:.1f} hand-picked learning rates"


def _seeds_in_words(verdict: Verdict) -> str:
    fresh = ", ".join(map(str, verdict.fresh))
    if verdict.same_seeds:
        text = f"the learning rates were chosen and reported on the same seed {fresh}, which flatters hand-tuning"
    else:
        text = f"learning rates chosen on seeds {', '.join(map(str, verdict.tuning))}, reported on fresh seeds {fresh}"
    if verdict.left_out:
        text += f"; without a whole front on both sides: seeds {', '.join(map(str, verdict.left_out))}"
    return text


def _verdict(grid: LrGrid, problem: Problem, variant: str) -> Verdict | None:
    hand, auto = grid.arm(problem), grid.arm(problem, variant)
    everyone = sorted({seed for units in (*hand.values(), *auto.values()) for seed in units})
    seeds = [
        seed
        for seed in everyone
        if all(seed in units and not units[seed].missing for units in (*hand.values(), *auto.values()))
    ]
    if not hand or not seeds:
        return None
    tuning, fresh = split_seeds(seeds)
    of_auto = tuple(float(np.mean([units[seed].hypervolume for units in auto.values()])) for seed in fresh)
    rates = tuple(hand)
    choice = [float(np.mean([hand[lr][seed].hypervolume for seed in tuning])) for lr in rates]
    report = [float(np.mean([hand[lr][seed].hypervolume for seed in fresh])) for lr in rates]
    best = rates[int(np.argmax(choice))]
    settings = tuple(hand[best][fresh[0]].costs)
    single = dict.fromkeys(settings, best)
    charge, was_measured = _charge(hand, auto)
    opponents = tuple(
        _opponent(name, chosen, hand, of_auto, fresh)
        for name, chosen in ((SINGLE, single), (ORACLE, _oracle(hand, single, tuning)))
    )
    curve = tuning_curve(choice, float(np.mean(of_auto)), report=report, charge=charge)
    left_out = tuple(seed for seed in everyone if seed not in seeds)
    return Verdict(
        problem, variant, tuple(auto), rates, tuning, fresh, left_out, charge, was_measured, opponents, curve
    )


def _opponent(
    name: str,
    choice: Mapping[Setting, float],
    hand: Mapping[float, Mapping[int, Unit]],
    auto: tuple[float, ...],
    fresh: Sequence[int],
) -> Opponent:
    of_hand = tuple(_volume(hand, choice, seed) for seed in fresh)
    result = paired(np.subtract(auto, of_hand))
    return Opponent(name, choice, len(hand), of_hand, auto, result, None, TOO_FEW)


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
    costs = [hand[rate][seed].costs[setting] for setting, rate in choice.items()]
    finished = [item for item in costs if item is not None]
    return hypervolume(np.stack(finished)) if finished else 0.0


def _charge(hand: Mapping[float, Mapping[int, Unit]], auto: Mapping[float, Mapping[int, Unit]]) -> tuple[float, bool]:
    """AutoLR's cost in runs: the median over pairs (same lr as start, seed, setting) of the training times' ratio.

    At least 1, since below it is a timer's noise; 1.033 (FLOPs) where no pair has times.
    """
    ratios = [
        seconds / hand[lr][seed].train_seconds[setting]
        for lr, units in auto.items()
        if lr in hand
        for seed, unit in units.items()
        if seed in hand[lr]
        for setting, seconds in unit.train_seconds.items()
        if hand[lr][seed].train_seconds.get(setting, 0.0) > 0 and seconds > 0
    ]
    if not ratios:
        return PROBE_CHARGE, False
    return max(1.0, float(np.median(ratios))), True


def _corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Holm over the models and data sets of each (method, variant, opponent), and the outcomes that follow."""
    families: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for row, verdict in enumerate(verdicts):
        for column, opponent in enumerate(verdict.opponents):
            if opponent.result.enough and not verdict.same_seeds:
                key = (verdict.problem.method, verdict.variant, opponent.name)
                families.setdefault(key, []).append((row, column))
    adjusted: dict[tuple[int, int], float] = {}
    for places in families.values():
        values = [verdicts[row].opponents[column].result.p for row, column in places]
        adjusted |= zip(places, holm([value for value in values if value is not None]), strict=True)
    found = []
    for row, verdict in enumerate(verdicts):
        opponents = []
        for column, opponent in enumerate(verdict.opponents):
            p = adjusted.get((row, column))
            outcome = TOO_FEW
            if p is not None:
                outcome = UNDECIDED if p >= ALPHA else BETTER if opponent.result.mean > 0 else WORSE
            opponents.append(replace(opponent, p_holm=p, outcome=outcome))
        found.append(replace(verdict, opponents=tuple(opponents)))
    return found
