"""Compare an automatic rate with every hand-tuned learning rate on the same seeds.

These rules apply to one method with one configuration (such as c = 0.9) on one task:

- The arms differ in the rate rule alone. If no fixed rate was run with the settings of a rule, there is no verdict.
- Each seed is one unit. The runs of a rule from several starts on one seed are averaged, and equal runs count once. A
  seed that repeats all results of an earlier seed is not counted.
- The endpoints are kept apart: success and collapse are compared on all seeds, and quality is compared on the seeds
  where neither side collapsed (:mod:`analysis.study.endpoints`).
- A rule is *better* if it is better than every rate of the grid (intersection-union test: the largest p-value over all
  rates counts), so no rate must be chosen on other seeds. A rate that collapsed on nearly all seeds is compared by
  collapse. A rule that collapsed more often than the best rate, or succeeded significantly less often, is not better.
- A rule is *as good* if its quality is above that of every rate minus a margin, and below that of the best rate plus
  the margin, with the same conditions.
- A rule is *worse* if it is worse than the best rate in quality, success or collapse. The best rate is chosen on the
  same seeds, so the p-value is corrected for the number of rates and endpoints.
- Holm's correction covers the strongest claim of each comparison. With a primary comparison, all other comparisons are
  tested only if the primary one is decided. The probability of any wrong claim is at most 5%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from statsmodels.stats.multitest import multipletests

from analysis.study.endpoints import RunFacts
from analysis.study.hand_tuning import best_rate, edge_of_curve
from analysis.study.paired import (
    ALPHA,
    Share,
    detectable,
    exact_share,
    least_seeds,
    mean_interval,
    p_above,
    p_below,
    p_more_often,
)
from analysis.study.units import (
    Arms,
    Side,
    Units,
    collapses,
    mean,
    quality_differences,
    setting_differences,
    successes,
    units_of,
    value_of,
)
from analysis.study.verdict import (
    MARGIN,
    Cost,
    Equivalence,
    NoVerdict,
    Outcome,
    Pair,
    Quality,
    RateResult,
    Runs,
    Updates,
    Verdict,
)
from analysis.tables.columns import Columns
from analysis.tables.note import Note, note
from analysis.words import cell

_ENDPOINTS = 3
"""A rule may be worse than the best rate in quality, success or collapse."""


def verdicts_data(
    arms: Sequence[Arms], measure: str, *, columns: Columns, seeds_vary: str = "order", primary: str = ""
) -> tuple[Verdict | NoVerdict, ...]:
    """Return a verdict, or the reason why there is none, for each method, configuration, task and automatic rate.

    Args:
        measure: the metric of the quality.
        columns: the columns of the trials.
        primary: the primary comparison (:func:`is_primary`); "" if none was named.
    """
    results: list[Verdict | NoVerdict] = []
    for item in arms:
        for variant in item.auto or ("",):
            units = units_of(item, variant) if variant and item.hand else None
            why = _reason(item, variant, units, measure, arms, columns)
            if why is not None or units is None:
                results.append(NoVerdict(item.method_task, item.method, variant, why or note("no_whole_seed")))
            else:
                results.append(_compare(item, variant, units, measure, seeds_vary))
    judged = iter(_with_outcomes([item for item in results if isinstance(item, Verdict)], primary))
    return tuple(next(judged) if isinstance(item, Verdict) else item for item in results)


def is_primary(primary: str, item: Verdict | NoVerdict) -> bool:
    """Return whether a comparison is the primary one, which is named as ``METHOD`` or ``METHOD/VARIANT``."""
    method, _, variant = primary.partition("/")
    return item.method_task.method == method and (not item.variant or variant in ("", item.variant))


def _reason(
    arms: Arms, variant: str, units: Units | None, measure: str, all_arms: Sequence[Arms], columns: Columns
) -> Note | None:
    """Return why the arms have no verdict; None if they have one."""
    if not variant:
        return note("no_auto_lr")
    if not arms.hand:
        differences = setting_differences(arms, variant, all_arms, columns)
        return note("arms_differ", arm=variant, differences=differences) if differences else note("no_fixed_rate")
    if not measure:
        return note("no_measure")
    if (unjudged := _unjudged(arms, variant)) is not None:
        return unjudged
    return note("no_whole_seed") if units is None else None


def _unjudged(arms: Arms, variant: str) -> Note | None:
    """Return a note if it is unknown for each run that did not collapse whether its model forgot; otherwise None."""
    by_rate = (*arms.hand.values(), *arms.auto[variant].values())
    runs = [facts for by_seed in by_rate for facts in by_seed.values() if facts.run.has_outcome and not facts.collapsed]
    if not runs or any(facts.unjudged == () for facts in runs):
        return None
    thresholds = dict.fromkeys(name for facts in runs for name in facts.unjudged or ())
    return note("forgetting_not_measured", thresholds=tuple(thresholds)) if thresholds else note("no_forget_threshold")


def _compare(arms: Arms, variant: str, units: Units, measure: str, seeds_vary: str) -> Verdict:
    rates, row = tuple(units.hand), units.auto_runs[0].run.row
    scores = [mean(value_of(side[seed]) for seed in units.seeds) for side in units.hand.values()]
    best = best_rate(rates, scores)
    won = {rate: successes(units, side) for rate, side in units.hand.items()}
    auto_won, best_won = successes(units, units.auto), won[best]
    differences = quality_differences(units, best)
    low, high = mean_interval(differences)
    collapse = Pair(_collapsed(units, units.auto), _collapsed(units, units.hand[best]))
    is_safe = _is_safe(collapse, auto_won, list(won.values()))
    p_better, p_not_less = (
        max(_p_better(units, rate, bar) for rate in rates) if is_safe else 1.0 for bar in (0.0, -MARGIN)
    )
    p_not_more = p_below(differences, MARGIN) if len(differences) >= 2 else 1.0
    return Verdict(
        method_task=arms.method_task,
        method=arms.method,
        rule=str(row["auto_lr"]),
        variant=variant,
        rule_settings={str(name): cell(row[name]) for name in row.index if str(name).startswith("auto_lr_")},
        split=str(cell(row.get("forget_split")) or ""),
        starts=units.starts,
        seeds=units.seeds,
        left_out=units.left_out,
        copies=units.copies,
        repeated_starts=len(units.seeds) * len(units.starts) - len(units.auto_runs),
        seeds_vary=seeds_vary,
        best_lr=best,
        edge=edge_of_curve(rates, scores),
        rates=tuple(
            RateResult(rate, score, math.nan if won[rate] is None else mean(map(float, won[rate] or ())))
            for rate, score in zip(rates, scores, strict=True)
        ),
        auto=tuple(value_of(units.auto[seed]) for seed in units.seeds),
        success=None if auto_won is None or best_won is None else Pair(_share(auto_won), _share(best_won)),
        collapse=collapse,
        quality=Quality(measure, mean(differences), low, high, p_better, len(differences)),
        equivalence=Equivalence(MARGIN, max(p_not_less, p_not_more)),
        cost=Pair(Cost(mean(run.seconds for run in units.auto_runs), 1), _hand_cost(units)),
        updates=_updates(units.auto_runs),
        spread=float(np.std(differences, ddof=1)) if len(differences) > 1 else math.nan,
        p_worse=_p_worse(units, best, auto_won, best_won),
    )


def _is_safe(collapse: Pair[Runs], auto_won: list[bool] | None, won: Sequence[list[bool] | None]) -> bool:
    """Return whether a rule did not collapse more often than the best rate, nor succeed less often than any rate.

    Success counts only if the difference is significant.
    """
    if collapse.auto.share > collapse.hand.share:
        return False
    return auto_won is None or all(item is None or p_more_often(item, auto_won) >= ALPHA / 2 for item in won)


def _p_better(units: Units, rate: float, bar: float) -> float:
    """Return the p-value of "the quality of a rule exceeds that of a rate by more than ``bar``".

    If too few seeds remain because the rate collapsed, the p-value is that of "the rate collapses more often".
    """
    differences = quality_differences(units, rate)
    if len(differences) < min(least_seeds(), len(units.seeds)):
        return p_more_often(collapses(units, units.hand[rate]), collapses(units, units.auto))
    return p_above(differences, bar)


def _p_worse(units: Units, best: float, auto_won: list[bool] | None, best_won: list[bool] | None) -> float:
    """Return the p-value of "a rule is worse than the best rate", corrected for the choice of rate and endpoint."""
    p_values = [
        p_below(quality_differences(units, best)),
        p_more_often(collapses(units, units.auto), collapses(units, units.hand[best])),
        1.0 if auto_won is None or best_won is None else p_more_often(best_won, auto_won),
    ]
    return min(1.0, len(units.hand) * _ENDPOINTS * min(p_values))


def _collapsed(units: Units, side: Side) -> Runs:
    runs = [run for seed in units.seeds for run in side[seed]]
    return Runs(sum(bool(run.collapsed) for run in runs), len(runs))


def _share(results: Sequence[bool]) -> Share:
    return exact_share(sum(results), len(results))


def _hand_cost(units: Units) -> Cost:
    seconds = (mean(run.seconds for runs in side.values() for run in runs) for side in units.hand.values())
    return Cost(sum(seconds), len(units.hand))


def _updates(runs: Sequence[RunFacts]) -> Updates | None:
    counts = [(run.accepted, run.updates) for run in runs if run.accepted is not None and run.updates is not None]
    return Updates(sum(accepted for accepted, _ in counts), sum(of for _, of in counts)) if counts else None


def _with_outcomes(verdicts: Sequence[Verdict], primary: str) -> list[Verdict]:
    """Correct the claims of all verdicts together, and decide the outcomes."""
    first = [item for item in verdicts if primary and is_primary(primary, item)]
    others = [item for item in verdicts if item not in first]
    decided: dict[int, Verdict] = {}
    gate = 0.0
    for family in filter(None, (first, others)):
        corrected = multipletests([item.p_claim for item in family], alpha=ALPHA, method="holm")[1]
        for item, p in zip(family, np.maximum(corrected, gate).tolist(), strict=True):
            decided[id(item)] = _with_outcome(item, p, len(family), is_primary=family is first)
        gate = float(max(corrected))
    return [decided[id(item)] for item in verdicts]


def _with_outcome(verdict: Verdict, p: float, comparisons: int, *, is_primary: bool) -> Verdict:
    claims = (
        (Outcome.BETTER, 2 * verdict.quality.p),
        (Outcome.AS_GOOD, verdict.equivalence.p),
        (Outcome.WORSE, 2 * verdict.p_worse),
    )
    factor = p / verdict.p_claim
    outcome = next((name for name, p_value in claims if p_value * factor < ALPHA), Outcome.UNDECIDED)
    # If a rule is worse than a rate that was tried, it is also worse than the best rate.
    if verdict.edge and outcome is not Outcome.WORSE:
        outcome = Outcome.OPEN
    if verdict.never_changed:  # then the runs show the initial rates, and not the rule
        outcome = Outcome.UNDECIDED
    smallest = detectable(verdict.quality.seeds, verdict.spread, comparisons)
    return replace(verdict, outcome=outcome, p=p, comparisons=comparisons, detectable=smallest, primary=is_primary)
