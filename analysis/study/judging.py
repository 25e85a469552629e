"""Compare AutoLR with hand-tuned learning rates on the same seeds.

These rules apply to one method on one model and data set:

- A baseline has one hypervolume on each seed: the hypervolume of its Pareto front over all values of c, the weight of
  the retain objective.
- AutoLR has one Pareto front for each seed and initial rate. Its hypervolume on a seed is the mean over all initial
  rates, so that nothing about AutoLR is tuned.
- The seeds with runs of both AutoLR and fixed rates are split into tuning seeds and fresh seeds
  (:func:`split_seeds`). The hand-tuned rates are chosen on the tuning seeds. Every difference is measured on the fresh
  seeds.
- Seeds with an incomplete front are left out after the split, so the split does not depend on which fronts are
  complete.
- There are two hand-tuned baselines: the best single rate for all values of c, and the per-c oracle, which has a
  separate best rate for each value of c. To tune a baseline over L rates, L runs per value of c and seed are needed.
- If the best rate is at the edge of the grid, a rate outside the grid may be better. In this case, the comparison can
  show that AutoLR is worse, but not that AutoLR is better.
- The mean difference between AutoLR and a baseline is tested by betting (:mod:`analysis.study.paired`). Holm's
  correction covers both directions of every comparison in the report. The probability of any wrong decision is at most
  5%.
- The comparison for the primary question (:func:`is_primary_question`) is corrected separately, with a limit of 5%.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.study.collapse import collapse
from analysis.study.hand_tuning import (
    EdgeOptimum,
    best_rate,
    edge_of_choice,
    edge_of_curve,
    oracle_choice,
)
from analysis.study.lr_grid import Arm, LrGrid, SeedFront
from analysis.study.paired import ALPHA, holm, lower_bound, paired, upper_bound
from analysis.study.study_runs import Configuration, MethodTask
from analysis.study.tuning_curve import PROBE_CHARGE, tuning_curve
from analysis.study.verdict import (
    AT_EDGE,
    BETTER,
    DESCRIBED,
    ORACLE,
    SINGLE,
    UNDECIDED,
    WORSE,
    Baseline,
    NoVerdict,
    Sides,
    Verdict,
    is_primary_question,
    least_seeds,
    split_seeds,
)
from analysis.tables.note import note
from analysis.tables.trial_table import finite_cell


def verdicts_data(grid: LrGrid, primary: str = "") -> tuple[Verdict | NoVerdict, ...]:
    """Return, for each method, task and AutoLR variant, a verdict or the reason why there is no verdict.

    ``primary`` names the primary question (:func:`is_primary_question`); "" if there is none."""
    results = [
        _verdict(grid, method_task, variant)
        for method_task in grid.method_tasks
        for variant in grid.variants(method_task) or ("",)
    ]
    corrected = _correct_verdicts([item for item in results if isinstance(item, Verdict)], primary)
    return tuple(next(corrected) if isinstance(item, Verdict) else item for item in results)


def without_tests(verdict: Verdict) -> Verdict:
    """Return a copy of the verdict without p-values and bounds, and with the outcome :data:`DESCRIBED`."""
    baselines = []
    for item in verdict.baselines:
        result = replace(item.result, p_above=math.nan, p_below=math.nan, sign_flip_p=None)
        baselines.append(replace(item, outcome=DESCRIBED, p_holm=None, bounds=None, result=result))
    return replace(verdict, baselines=tuple(baselines))


def _verdict(grid: LrGrid, method_task: MethodTask, variant: str) -> Verdict | NoVerdict:
    hand, auto = grid.arm(method_task), grid.arm(method_task, variant)
    if not hand:
        return NoVerdict(method_task, variant, note("no_fixed_rate"))
    if not variant:
        return NoVerdict(method_task, variant, note("no_auto_lr"))
    all_seeds = sorted(hand.seeds | auto.seeds)
    complete_seeds = [seed for seed in all_seeds if hand.is_complete(seed) and auto.is_complete(seed)]
    if not complete_seeds:
        return NoVerdict(method_task, variant, note("no_whole_seed"))
    tuning_part, planned = split_seeds(hand.seeds & auto.seeds)
    tuning, fresh = (tuple(seed for seed in group if seed in complete_seeds) for group in (tuning_part, planned))
    if not tuning or not fresh:
        tuning = fresh = tuple(complete_seeds)
    tuning_means, fresh_means, all_means = (
        [_mean(by_seed[seed].hypervolume() for seed in seeds) for by_seed in hand.values()]
        for seeds in (tuning, fresh, complete_seeds)
    )
    rates = tuple(hand)
    best = best_rate(rates, tuning_means)
    single = dict.fromkeys(hand[best][fresh[0]].runs, best)
    oracle = oracle_choice(hand, single, tuning)
    edge = edge_of_curve(rates, tuning_means) or edge_of_curve(rates, all_means)
    # With one configuration, the oracle equals the best single rate.
    edge_of_oracle = edge_of_choice(hand, oracle, tuning) if single != oracle else edge
    auto_volumes = tuple(_mean(front.hypervolume() for front in auto.on_seed(seed)) for seed in fresh)
    by_box = {box: _mean(by_seed[seed].hypervolume(box) for by_seed in auto.values() for seed in fresh)
                for box in grid.boxes}  # fmt: skip
    baselines = tuple(
        _baseline(name, choice, optimum, [hand.front_of_choice(choice, seed) for seed in fresh], auto_volumes, by_box)
        for name, choice, optimum in ((SINGLE, single, edge), (ORACLE, oracle, edge_of_oracle))
    )
    return Verdict(
        method_task=method_task,
        variant=variant,
        starts=tuple(auto),
        of_starts=tuple(_mean(by_seed[seed].hypervolume() for seed in fresh) for by_seed in auto.values()),
        rates=rates,
        tuning=tuning,
        fresh=fresh,
        left_out=tuple(seed for seed in all_seeds if seed not in complete_seeds),
        planned=planned,
        collapse=collapse([auto.on_seed(seed) for seed in fresh]),
        other_collapse=collapse([auto.on_seed(seed) for seed in all_seeds if seed not in fresh]),
        baselines=baselines,
        curve=tuning_curve(tuning_means, _mean(auto_volumes), report=fresh_means, charge=auto_lr_charge(hand, auto)),
        updates=_median_updates(auto),
        seeds_vary=grid.seeds_vary,
    )


def auto_lr_charge(hand: Arm, auto: Arm) -> float:
    """Return the cost of an AutoLR run, as a multiple of the cost of a fixed-rate run.

    The cost is the median ratio of training times over all pairs of an AutoLR run and a fixed-rate run with the same
    seed and configuration, if AutoLR's initial rate equals the fixed rate. The result is at least :data:`PROBE_CHARGE`,
    because measured times are noisy.
    """
    pairs = [
        (front.runs[item].train_seconds, hand[lr][seed].runs[item].train_seconds)
        for lr in auto.keys() & hand.keys()
        for seed, front in auto[lr].items()
        if seed in hand[lr]
        for item in front.runs.keys() & hand[lr][seed].runs.keys()
        if front.runs[item].costs is not None and hand[lr][seed].runs[item].costs is not None
    ]
    ratios = [adaptive / fixed for adaptive, fixed in pairs if adaptive > 0 and fixed > 0]
    return max(PROBE_CHARGE, float(np.median(ratios))) if ratios else PROBE_CHARGE


def _median_updates(auto: Arm) -> float | None:
    counts = []
    for row in (run.row for run in auto.runs if run.row["status"] == "finished"):
        steps, interval = finite_cell(row, "steps"), finite_cell(row, "auto_lr_every")
        if steps and interval:
            start = finite_cell(row, "auto_lr_start") or 1.0
            counts.append(max(0, (steps - start) // interval + 1))
    return float(np.median(counts)) if counts else None


def _baseline(
    name: str,
    choice: Mapping[Configuration, float],
    edge: EdgeOptimum | None,
    fronts: Sequence[SeedFront],
    auto_volumes: tuple[float, ...],
    auto_by_box: Mapping[str, float],
) -> Baseline:
    hand_volumes = tuple(front.hypervolume() for front in fronts)
    sides = {box: Sides(auto, _mean(front.hypervolume(box) for front in fronts)) for box, auto in auto_by_box.items()}
    further = {box: values for box, values in sides.items() if np.isfinite(values).all()}
    result, collapsed = paired(np.subtract(auto_volumes, hand_volumes)), collapse([[front] for front in fronts])
    return Baseline(name, choice, hand_volumes, auto_volumes, result, collapsed, edge, further)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _correct_verdicts(verdicts: Sequence[Verdict], primary: str) -> Iterator[Verdict]:
    families: dict[bool, list[tuple[Verdict, Baseline]]] = {True: [], False: []}
    for verdict in verdicts:
        is_primary = is_primary_question(primary, verdict.method_task.method, verdict.variant)
        for baseline in verdict.compared:
            families[is_primary and baseline is verdict.single].append((verdict, baseline))
    corrected: dict[int, Baseline] = {}
    for is_primary, family in families.items():
        for (_, baseline), result in zip(family, _correct_family(family), strict=True):
            corrected[id(baseline)] = replace(result, primary=is_primary)
    for verdict in verdicts:
        # An oracle that equals the best single rate has the same result.
        single = corrected[id(verdict.single)]
        baselines = (corrected.get(id(item)) or replace(single, name=item.name) for item in verdict.baselines)
        yield replace(verdict, baselines=tuple(baselines))


def _correct_family(family: Sequence[tuple[Verdict, Baseline]]) -> Iterator[Baseline]:
    # Comparisons that cannot be tested are not counted. Whether a comparison can be tested depends on the seeds only.
    tested = [not verdict.same_seeds and baseline.result.n >= least_seeds(1) for verdict, baseline in family]
    results = [baseline.result for (_, baseline), is_tested in zip(family, tested, strict=True) if is_tested]
    adjusted = iter(holm([p for result in results for p in (result.p_above, result.p_below)]))
    for (verdict, baseline), is_tested in zip(family, tested, strict=True):
        p_holm = (next(adjusted), next(adjusted)) if is_tested else None
        # An untested comparison reports what a test with more seeds would need, and such a test counts all comparisons.
        counted = replace(baseline, comparisons=sum(tested) if is_tested else len(family))
        yield counted if verdict.same_seeds else _with_outcome(counted, p_holm)


def _with_outcome(baseline: Baseline, p_holm: tuple[float, float] | None) -> Baseline:
    differences = np.subtract(baseline.auto, baseline.hand)
    level = ALPHA / (2 * baseline.comparisons)
    low, high = lower_bound(differences, level), upper_bound(differences, level)
    if p_holm is None or baseline.result.n < baseline.fresh_least:
        return replace(baseline, bounds=(low, high))
    outcome = BETTER if p_holm[0] < ALPHA else WORSE if p_holm[1] < ALPHA else UNDECIDED
    # If AutoLR is worse than a rate that was tried, AutoLR is also worse than the best rate.
    if baseline.edge and outcome != WORSE:
        return replace(baseline, bounds=(low, high), outcome=AT_EDGE)
    # Holm's test rejects slightly more often than the bounds exclude 0 (Strassburger & Bretz 2008).
    bounds = (max(low, 0.0), high) if outcome == BETTER else (low, min(high, 0.0)) if outcome == WORSE else (low, high)
    return replace(baseline, bounds=bounds, outcome=outcome, p_holm=min(p_holm))
