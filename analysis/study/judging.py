"""Compare AutoLR with hand-tuned learning rates on the same seeds.

The rules, for one method on one model and data set:

- On each seed, AutoLR and hand-tuning have one number each: the hypervolume of the front over c. AutoLR's number is the
  mean over all its initial rates, so that nothing about AutoLR is tuned.
- Seeds are split in advance, in ascending order: the first ``max(1, n // 3)`` are for tuning, the others are fresh. The
  hand-tuned rates are chosen on the tuning seeds, and every difference is measured on fresh seeds. Seeds that only one
  side ran are not split. A seed with an incomplete front is left out, and the other seeds keep their roles.
- There are two baselines. The best single rate is used for all c. The per-c oracle chooses a rate for every c, so that
  the mean hypervolume of the front on the tuning seeds is largest. With L rates, both baselines cost L runs per c.
- If the best rate is at the edge of the grid (on the tuning seeds or on all seeds), a rate outside the grid may be
  better. In this case, the only possible conclusion is that AutoLR is worse.
- The mean of the paired differences is tested by betting (:mod:`analysis.study.paired`), which is valid for any
  distribution in [-1, 1]. Holm's correction covers both directions of every comparison in the report (all methods,
  variants, baselines and problems), so the probability of any wrong decision is at most 5%. If there are too few seeds
  to reach this level, nothing is concluded.
- A primary question, named before the results are known (:class:`analysis.study.verdict.Primary`), is corrected
  separately: its error probability is at most 5%, and that of all other comparisons jointly is at most another 5%.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.study.collapse import chosen, collapse
from analysis.study.hand_tuning import (
    GridEdge,
    best_rate,
    edge_of_choice,
    edge_of_curve,
    mean_volume,
    oracle_choice,
    volume_on,
)
from analysis.study.lr_grid import Arm, LrGrid, Unit
from analysis.study.paired import ALPHA, holm, lower_bound, paired, upper_bound
from analysis.study.probe_cost import auto_lr_charge, median_updates
from analysis.study.study_runs import Configuration, StudyRun, Task
from analysis.study.tuning_curve import tuning_curve
from analysis.study.verdict import (
    BETTER,
    DESCRIBED,
    MISSING,
    OPEN,
    ORACLE,
    SINGLE,
    UNDECIDED,
    WORSE,
    Baseline,
    LostSeeds,
    NoVerdict,
    Primary,
    Sides,
    Verdict,
    least_seeds,
    split_seeds,
)
from analysis.tables.note import Note, note

_HOW = {"failed": "failed", "stopped": "were stopped", "finished": "lack a value of an objective"}


def verdicts_data(grid: LrGrid, primary: Primary | None = None) -> tuple[Verdict, ...]:
    """Return a verdict for every method, problem and AutoLR variant that has a seed on which all fronts are complete.

    ``primary`` is the primary question, if one was named before the results were known.
    """
    found = [
        verdict
        for task in grid.tasks
        for variant in grid.variants(task)
        if (verdict := _verdict(grid, task, variant)) is not None
    ]
    return tuple(_corrected(found, primary))


def described(verdict: Verdict) -> Verdict:
    """Return a copy of the verdict without tested outcomes, p-values and bounds, so that it is only a description."""
    baselines = (replace(item, outcome=DESCRIBED, p_holm=None, bounds=None) for item in verdict.baselines)
    return replace(verdict, baselines=tuple(baselines))


def _verdict(grid: LrGrid, task: Task, variant: str) -> Verdict | None:
    hand, auto = grid.arm(task), grid.arm(task, variant)
    arms = (*hand.values(), *auto.values())
    everyone = sorted({seed for units in arms for seed in units})
    whole = {seed for seed in everyone if all(seed in units and not units[seed].missing for units in arms)}
    if not hand or not whole:
        return None
    sides = ({seed for units in side.values() for seed in units} for side in (hand, auto))
    to_tune, planned = split_seeds(tuple(set.intersection(*sides)))
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
    configurations = tuple(hand[best][fresh[0]].costs)
    single = dict.fromkeys(configurations, best)
    oracle = oracle_choice(hand, single, tuning)
    edge = edge_of_curve(rates, choice) or edge_of_curve(rates, over_all)
    # With one configuration, the oracle equals the best single rate.
    of_oracle = (
        edge_of_choice(rates, oracle, lambda rates: mean_volume(hand, rates, tuning)) if single != oracle else edge
    )
    boxes = {box: _mean(units[seed].further_hypervolume(box) for units in auto.values() for seed in fresh)
             for box in grid.boxes}  # fmt: skip
    baselines = (
        _baseline(SINGLE, single, edge, hand, of_auto, fresh, boxes),
        _baseline(ORACLE, oracle, of_oracle, hand, of_auto, fresh, boxes),
    )
    charge, was_measured = auto_lr_charge(hand, auto)
    others = [seed for seed in everyone if seed not in fresh]
    collapsed, other_collapsed = (
        collapse([[units[seed] for units in auto.values() if seed in units] for seed in seeds])
        for seeds in (fresh, others)
    )
    return Verdict(
        task=task,
        variant=variant,
        starts=tuple(auto),
        of_starts=of_starts,
        rates=rates,
        tuning=tuning,
        fresh=fresh,
        left_out=tuple(seed for seed in everyone if seed not in whole),
        planned=planned,
        lost=_lost_seeds({"with AutoLR": auto, "at fixed learning rates": hand}, planned),
        collapse=collapsed,
        other_collapse=other_collapsed,
        charge=charge,
        charge_measured=was_measured,
        baselines=baselines,
        curve=tuning_curve(choice, float(np.mean(of_auto)), report=report, charge=charge),
        updates=median_updates(auto),
        seeds_vary=grid.seeds_vary,
    )


def _baseline(
    name: str,
    choice: Mapping[Configuration, float],
    edge: GridEdge | None,
    hand: Arm,
    auto: tuple[float, ...],
    fresh: Sequence[int],
    boxes: Mapping[str, float],
) -> Baseline:
    of_hand = tuple(volume_on(hand, choice, seed) for seed in fresh)
    fronts = [chosen([(configuration, hand[rate][seed]) for configuration, rate in choice.items()]) for seed in fresh]
    result = paired(np.subtract(auto, of_hand))
    sides = {box: Sides(volume, _mean(unit.further_hypervolume(box) for unit in fronts))
             for box, volume in boxes.items()}  # fmt: skip
    further = {box: found for box, found in sides.items() if math.isfinite(found.auto) and math.isfinite(found.hand)}
    return Baseline(
        *(name, choice, len(hand), of_hand, auto, result, collapse([[unit] for unit in fronts]), edge), further=further
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _corrected(verdicts: Sequence[Verdict], primary: Primary | None) -> list[Verdict]:
    """Add p-values, bounds and outcomes to the verdicts. The primary question is corrected separately."""
    rows = [(row, column) for row, verdict in enumerate(verdicts) for column in verdict.asked]
    found = [list(verdict.baselines) for verdict in verdicts]
    first = [
        (row, column)
        for row, column in rows
        if primary and column == 0 and primary.asks(verdicts[row].task.method, verdicts[row].variant)
    ]
    for family in (first, [place for place in rows if place not in first]):
        for (row, column), baseline in _family(verdicts, family).items():
            found[row][column] = replace(baseline, primary=family is first)
    for verdict, baselines in zip(verdicts, found, strict=True):
        for column in {0, 1} - set(verdict.asked):
            baselines[column] = replace(baselines[0], name=baselines[column].name)
    return [replace(verdict, baselines=tuple(baselines)) for verdict, baselines in zip(verdicts, found, strict=True)]


def _family(verdicts: Sequence[Verdict], rows: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Baseline]:
    """Correct the comparisons at the given (verdict, baseline) positions jointly, and return them by position."""
    asked = {(row, column): verdicts[row].baselines[column] for row, column in rows}
    # Comparisons that cannot be tested do not enter the correction; this is known before the differences are.
    tested = [
        (row, column)
        for (row, column), baseline in asked.items()
        if not verdicts[row].same_seeds and baseline.result.n >= least_seeds(1)
    ]
    results = [asked[place].result for place in tested]
    adjusted = holm([p for result in results for p in (result.p_above, result.p_below)])
    p_values = {place: (adjusted[2 * i], adjusted[2 * i + 1]) for i, place in enumerate(tested)}
    # A comparison that could not be tested counts all comparisons, because with more seeds it would be one of them.
    return {
        place: _decided(
            replace(baseline, comparisons=len(tested) if place in p_values else len(rows)),
            p_values.get(place),
            verdicts[place[0]],
        )
        for place, baseline in asked.items()
    }


def _decided(baseline: Baseline, p_holm: tuple[float, float] | None, verdict: Verdict) -> Baseline:
    """Add the bounds of the difference, the outcome and (if it was tested) the Holm p-value to a baseline."""
    differences = np.subtract(baseline.auto, baseline.hand)
    if verdict.same_seeds:
        return baseline
    level = ALPHA / (2 * baseline.comparisons)
    low, high = lower_bound(differences, level), upper_bound(differences, level)
    if p_holm is None or baseline.result.n < baseline.fresh_least:
        return replace(baseline, bounds=(low, high))
    outcome = BETTER if p_holm[0] < ALPHA else WORSE if p_holm[1] < ALPHA else UNDECIDED
    # If AutoLR is worse than a rate that was tried, AutoLR is also worse than the best rate.
    if baseline.edge and outcome != WORSE:
        return replace(baseline, bounds=(low, high), outcome=OPEN)
    # Holm's test rejects slightly more often than the bounds exclude 0 (Strassburger & Bretz 2008).
    bounds = (max(low, 0.0), high) if outcome == BETTER else (low, min(high, 0.0)) if outcome == WORSE else (low, high)
    return replace(baseline, bounds=bounds, outcome=outcome, p_holm=min(p_holm))


def _lost_seeds(sides: Mapping[str, Arm], seeds: Sequence[int]) -> tuple[LostSeeds, ...]:
    """Return, for each side, the seeds on which the front of any learning rate is missing or incomplete."""
    found = []
    for side, arm in sides.items():
        lacks = {seed: [how for units in arm.values() for how in _lacks(units.get(seed))] for seed in seeds}
        lost = tuple(seed for seed, how in lacks.items() if how)
        if lost:
            found.append(LostSeeds(side, lost, tuple(dict.fromkeys(how for seed in lost for how in lacks[seed]))))
    return tuple(found)


def _lacks(unit: Unit | None) -> list[str]:
    """Return, for each missing run of a front, how the run was lost."""
    if unit is None:
        return [MISSING]
    runs = (unit.runs.get(configuration) for configuration in unit.missing)
    return [MISSING if run is None else _HOW[str(run.row["status"])] for run in runs]


def no_verdicts(grid: LrGrid, judged: Collection[tuple[Task, str]]) -> tuple[NoVerdict, ...]:
    """Return every task and AutoLR variant of the grid without a verdict (not in ``judged``), with the reason."""
    return tuple(
        NoVerdict(task, variant, _why(grid, task, variant))
        for task in grid.tasks
        for variant in grid.variants(task) or ("",)
        if (task, variant) not in judged
    )


def _why(grid: LrGrid, task: Task, variant: str) -> Note:
    hand, auto = grid.arm(task), grid.arm(task, variant) if variant else {}
    if not hand:
        return note("no_fixed_rate")
    if not auto:
        return note("no_auto_lr")
    if (
        part := _part_without_outcome(grid, auto, auto=True) or _part_without_outcome(grid, hand, auto=False)
    ) is not None:
        return part
    of_hand, of_auto = (tuple(sorted({seed for units in arm.values() for seed in units})) for arm in (hand, auto))
    if set(of_hand).isdisjoint(of_auto):
        return note("no_common_seed", fixed=of_hand, auto=of_auto)
    return note("no_whole_seed")


def _part_without_outcome(grid: LrGrid, arm: Arm, *, auto: bool) -> Note | None:
    """Return a note if the arm, one of its configurations or one of its rates has no outcome on any seed, else None.

    The note names the first of these.
    """
    units = [unit for by_seed in arm.values() for unit in by_seed.values()]
    configurations = dict.fromkeys(item for unit in units for item in (*unit.runs, *unit.missing))
    parts: list[tuple[tuple[tuple[str, object], ...], float | None, list[StudyRun]]]
    parts = [((), None, [run for unit in units for run in unit.runs.values()])]
    for item in configurations:
        at = tuple(zip(grid.configuration_columns, item, strict=True))
        parts.append((at, None, [unit.runs[item] for unit in units if item in unit.runs]))
    parts += [((), lr, [run for unit in by_seed.values() for run in unit.runs.values()]) for lr, by_seed in arm.items()]
    for at, lr, runs in parts:
        if not any(run.judged for run in runs):
            ended = tuple(Counter(str(run.row["status"]) for run in runs).items())
            return note("no_run_ended", auto=auto, at=at, lr=lr, ended=ended)
    return None
