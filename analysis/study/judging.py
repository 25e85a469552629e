"""AutoLR against the learning rate a person would have tuned, on the same seeds and at stated cost.

The rules, for one method on one model and data set:

- A seed contributes one number to each side: the hypervolume of its front over c. AutoLR's is the mean over the rates
  it was started from, so that nothing about it is tuned.
- Seeds are split beforehand, in rising order: the first ``max(1, n // 3)`` are for tuning, the others fresh. The
  person's rates are chosen on the tuning seeds; every difference is taken on fresh ones. A seed without whole fronts on
  both sides drops out of its own part, and no other changes sides for it; one that was run on one side only is in none.
- Two opponents: the best single rate for all c (L runs per c), and the per-c oracle, which takes for every c its own
  rate so that the front's mean hypervolume on the tuning seeds is largest (the same L runs per c, used better).
- The best rate must lie inside the grid: at its edge (on the tuning seeds, or on all), nothing is concluded but that
  AutoLR is worse than it, and so than the best.
- The mean of the paired differences is tested by betting (:mod:`analysis.study.bounded_mean`), which holds whatever
  their distribution in [-1, 1]; Holm over both directions of every comparison of the report, whatever its method,
  variant, opponent and problem, so that all of it decides anything wrongly with probability 5% at most. Where no
  differences at all could reach that, nothing is concluded.
- A primary question, named before there were results (:class:`analysis.study.primary.Primary`), is a family of its own:
  it errs with 5% at most by itself, and all others together with another 5%.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.study.bounded_mean import lower_bound, upper_bound
from analysis.study.grid_edge import GridEdge, best_rate, edge_of_choice, edge_of_curve
from analysis.study.hand_tuning import mean_volume, oracle_choice, volume_on
from analysis.study.lost_seeds import lost_seeds
from analysis.study.lr_grid import LrGrid, Unit
from analysis.study.paired import ALPHA, holm, paired
from analysis.study.placed_trials import Case, Setting
from analysis.study.primary import Primary
from analysis.study.probe_cost import auto_lr_charge, median_updates
from analysis.study.ruin import Ruin, chosen, ruin
from analysis.study.tuning_curve import tuning_curve
from analysis.study.verdict import (
    BETTER,
    DESCRIBED,
    OPEN,
    ORACLE,
    SINGLE,
    UNDECIDED,
    WORSE,
    Opponent,
    Sides,
    Verdict,
    least_seeds,
    split_seeds,
)


def verdicts_data(grid: LrGrid, primary: Primary | None = None) -> tuple[Verdict, ...]:
    """A verdict for every method, problem and AutoLR variant that has seeds with whole fronts on both sides.

    ``primary`` is the question that was named before there were results.
    """
    found = [
        verdict
        for case in grid.cases
        for variant in grid.variants(case)
        if (verdict := _verdict(grid, case, variant)) is not None
    ]
    return tuple(_corrected(found, primary))


def described(verdict: Verdict) -> Verdict:
    """The verdict without what only a test can say: no outcome, no p-value and no bounds."""
    opponents = (replace(item, outcome=DESCRIBED, p_holm=None, bounds=None) for item in verdict.opponents)
    return replace(verdict, opponents=tuple(opponents))


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
    to_tune, planned = split_seeds(_of_both(hand, auto))
    tuning, fresh = (tuple(seed for seed in part if seed in whole) for part in (to_tune, planned))
    if not tuning or not fresh:
        tuning = fresh = tuple(sorted(whole))
    of_auto = tuple(float(np.mean([units[seed].hypervolume for units in auto.values()])) for seed in fresh)
    of_starts = tuple(_mean(units[seed].hypervolume for seed in fresh) for units in auto.values())
    rates = tuple(hand)
    choice, report, over_all = (
        [float(np.mean([hand[lr][seed].hypervolume for seed in seeds])) for lr in rates]
        for seeds in (tuning, fresh, sorted(whole))
    )
    best = best_rate(rates, choice)
    settings = tuple(hand[best][fresh[0]].costs)
    single = dict.fromkeys(settings, best)
    oracle = oracle_choice(hand, single, tuning)
    edge = edge_of_curve(rates, choice) or edge_of_curve(rates, over_all)
    # With one setting the oracle is the best single rate.
    of_oracle = (
        edge_of_choice(rates, oracle, lambda rates: mean_volume(hand, rates, tuning)) if single != oracle else edge
    )
    boxes = {box: _mean(units[seed].further_hypervolume(box) for units in auto.values() for seed in fresh)
             for box in grid.boxes}  # fmt: skip
    opponents = (
        _opponent(SINGLE, single, edge, hand, of_auto, fresh, boxes),
        _opponent(ORACLE, oracle, of_oracle, hand, of_auto, fresh, boxes),
    )
    charge, was_measured = auto_lr_charge(hand, auto)
    elsewhere = [seed for seed in everyone if seed not in fresh]
    ruined, other_ruin = (_ruin_of(auto, seeds) for seeds in (fresh, elsewhere))
    curve = tuning_curve(choice, float(np.mean(of_auto)), report=report, charge=charge)
    left_out = tuple(seed for seed in everyone if seed not in whole)
    lost = lost_seeds({"with AutoLR": auto, "at fixed learning rates": hand}, planned)
    return Verdict(
        *(case, variant, tuple(auto), of_starts, rates, tuning, fresh, left_out, planned, lost, ruined, other_ruin),
        *(charge, was_measured, opponents, curve),
        updates=median_updates(auto),
        seeds_vary=grid.seeds_vary,
    )


def _ruin_of(auto: Mapping[float, Mapping[int, Unit]], seeds: Iterable[int]) -> Ruin:
    """AutoLR's ruin on these seeds, over the starts that were run there."""
    return ruin([[units[seed] for units in auto.values() if seed in units] for seed in seeds])


def _of_both(*sides: Mapping[float, Mapping[int, Unit]]) -> tuple[int, ...]:
    """The seeds that every side was run on, at some rate or from some start."""
    return tuple(set.intersection(*({seed for units in side.values() for seed in units} for side in sides)))


def _opponent(
    name: str,
    choice: Mapping[Setting, float],
    edge: GridEdge | None,
    hand: Mapping[float, Mapping[int, Unit]],
    auto: tuple[float, ...],
    fresh: Sequence[int],
    boxes: Mapping[str, float],
) -> Opponent:
    of_hand = tuple(volume_on(hand, choice, seed) for seed in fresh)
    fronts = [chosen([(setting, hand[rate][seed]) for setting, rate in choice.items()]) for seed in fresh]
    result = paired(np.subtract(auto, of_hand))
    sides = {box: Sides(volume, _mean(unit.further_hypervolume(box) for unit in fronts))
             for box, volume in boxes.items()}  # fmt: skip
    further = {box: found for box, found in sides.items() if math.isfinite(found.auto) and math.isfinite(found.hand)}
    return Opponent(
        *(name, choice, len(hand), of_hand, auto, result, ruin([[unit] for unit in fronts]), edge), further=further
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _corrected(verdicts: Sequence[Verdict], primary: Primary | None) -> list[Verdict]:
    """Holm over both directions of each family's comparisons, the bounds that belong to it, and what follows."""
    rows = [(row, column) for row, verdict in enumerate(verdicts) for column in verdict.asked]
    found = [list(verdict.opponents) for verdict in verdicts]
    first = [
        (row, column)
        for row, column in rows
        if primary and column == 0 and primary.asks(verdicts[row].case.method, verdicts[row].variant)
    ]
    for family in (first, [place for place in rows if place not in first]):
        for (row, column), opponent in _family(verdicts, family).items():
            found[row][column] = replace(opponent, primary=family is first)
    for verdict, opponents in zip(verdicts, found, strict=True):
        for column in {0, 1} - set(verdict.asked):
            opponents[column] = replace(opponents[0], name=opponents[column].name)
    return [replace(verdict, opponents=tuple(opponents)) for verdict, opponents in zip(verdicts, found, strict=True)]


def _family(verdicts: Sequence[Verdict], rows: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Opponent]:
    """The comparisons at these places, (verdict, opponent), corrected for one another."""
    asked = {(row, column): verdicts[row].opponents[column] for row, column in rows}
    # What cannot be tested at all is no burden to the others; that is known before any difference is.
    tested = [
        (row, column)
        for (row, column), opponent in asked.items()
        if not verdicts[row].same_seeds and opponent.result.n >= least_seeds(1)
    ]
    results = [asked[place].result for place in tested]
    adjusted = holm([p for result in results for p in (result.p_above, result.p_below)])
    p_values = {place: (adjusted[2 * i], adjusted[2 * i + 1]) for i, place in enumerate(tested)}
    # More seeds for one that could not be tested would make it one of all.
    return {
        place: _decided(
            replace(opponent, comparisons=len(tested) if place in p_values else len(rows)),
            p_values.get(place),
            verdicts[place[0]],
        )
        for place, opponent in asked.items()
    }


def _decided(opponent: Opponent, p_holm: tuple[float, float] | None, verdict: Verdict) -> Opponent:
    """The opponent with the bounds of its difference, its outcome and, where it has one, its corrected p-value."""
    differences = np.subtract(opponent.auto, opponent.hand)
    if verdict.same_seeds:
        return opponent
    level = ALPHA / (2 * opponent.comparisons)
    low, high = lower_bound(differences, level), upper_bound(differences, level)
    if p_holm is None or opponent.result.n < opponent.fresh_least:
        return replace(opponent, bounds=(low, high))
    outcome = BETTER if p_holm[0] < ALPHA else WORSE if p_holm[1] < ALPHA else UNDECIDED
    # What is worse than a rate that was tried is worse than the best one, wherever that lies.
    if opponent.edge and outcome != WORSE:
        return replace(opponent, bounds=(low, high), outcome=OPEN)
    # Holm decides a little more than the bounds alone (Strassburger & Bretz 2008).
    bounds = (max(low, 0.0), high) if outcome == BETTER else (low, min(high, 0.0)) if outcome == WORSE else (low, high)
    return replace(opponent, bounds=bounds, outcome=outcome, p_holm=min(p_holm))
