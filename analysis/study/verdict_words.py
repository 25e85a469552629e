"""A verdict on AutoLR in sentences: what can be said, and what cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.study.tuning_curve import TuningCurve
from analysis.study.verdict import BETTER, ORACLE, SINGLE, TOO_FEW, UNDECIDED, WORSE, Opponent, Verdict, seeds_for
from analysis.words import counted, number


def words(verdict: Verdict) -> tuple[str, ...]:
    """What can be said, and what cannot, in sentences."""
    name = verdict.case
    lines = []
    for opponent in verdict.opponents:
        result = opponent.result
        if opponent.name == ORACLE and len(opponent.choice) < 2:
            continue  # with one setting the oracle is the best single rate
        against = f"the {opponent.name}"
        if opponent.name == SINGLE:
            against = f"the best single lr ({number(next(iter(opponent.choice.values())))})"
        interval = ""
        if result.low is not None:
            interval = f", 95% interval {result.low:+.4f} to {result.high:+.4f}"
        difference = f"hypervolume, AutoLR minus hand-tuned, {result.mean:+.4f}{interval}"
        if opponent.outcome == TOO_FEW:
            lines.append(
                f"{name}: nothing can be concluded about AutoLR {verdict.variant} against {against} from "
                f"{counted(result.n, 'seed' if verdict.same_seeds else 'fresh seed')}: "
                f"{_lacking(opponent, same_seeds=verdict.same_seeds)}. So far: {difference}"
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


def _lacking(opponent: Opponent, *, same_seeds: bool) -> str:
    """What a test would need."""
    needed = opponent.fresh_needed
    if same_seeds and opponent.result.n >= needed:
        return "the rates were chosen on the seeds they are reported on"
    corrected, each = "", ""
    if opponent.comparisons > 1:
        corrected, each = f", corrected for {opponent.comparisons} models and data sets,", " in each"
    return f"a two-sided test at 5%{corrected} needs {needed} fresh ones{each} (--seeds {seeds_for(needed)})"


def curve_in_words(curve: TuningCurve) -> str:
    """``AutoLR, charged 1.03 runs, equals the best of 2.4 hand-picked learning rates``."""
    cost = f"AutoLR, charged {curve.charge:.2f} runs,"
    if math.isinf(curve.equals):
        if len(curve.picks) == 1:
            return f"{cost} is above the only learning rate tried"
        return f"{cost} is above the best of all {len(curve.picks)} learning rates tried: no number of picks equals it"
    if curve.auto <= 0:
        return f"{cost} attains nothing"
    if curve.expected[0] >= curve.auto:
        return f"{cost} does no better than one learning rate picked at random"
    return f"{cost} equals the best of {curve.equals:.1f} hand-picked learning rates"


def _seeds_in_words(verdict: Verdict) -> str:
    fresh = _seeds(verdict.fresh)
    if verdict.same_seeds:
        text = f"The learning rates were chosen and reported on the same {fresh}, which flatters hand-tuning"
    else:
        text = f"Learning rates chosen on {_seeds(verdict.tuning)}, reported on fresh {fresh}"
    if verdict.left_out:
        text += f"; without a whole front on both sides: {_seeds(verdict.left_out)}"
    return text


def _seeds(seeds: Sequence[int]) -> str:
    """``seed 0``, ``seeds 1, 2``."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
