"""A verdict on AutoLR in sentences: what can be said, and what cannot."""

from __future__ import annotations

import math

from analysis.study.ruin import Ruin
from analysis.study.seeds import seeds_in_words
from analysis.study.sensitivity import WITHIN
from analysis.study.tuning_curve import TuningCurve
from analysis.study.verdict import (
    BETTER,
    DESCRIBED,
    OPEN,
    SINGLE,
    TOO_FEW,
    UNDECIDED,
    WORSE,
    Opponent,
    Verdict,
    seeds_for,
)
from analysis.words import counted, number

FEW_UPDATES = 5
"""Below so many updates of a run, AutoLR's start decides most."""
SETS_ITS_RATE_ONCE = ("safe",)
"""Rules that choose the rate at their first update, wherever they start."""
_CONDITIONAL = {
    "order": "Seeds vary the order of examples: the verdict is conditional on this one target model and these data",
    "target": "Seeds vary the target model and the order of examples: the verdict is conditional on these data",
    "data": "Seeds vary the data, the target trained on them and the order of examples: the verdict is conditional on "
    "this kind of data and of model",
}
_SAID = {BETTER: "is better than", WORSE: "is worse than", UNDECIDED: "is not shown to differ from"}


def words(verdict: Verdict) -> tuple[str, ...]:
    """What can be said, and what cannot, in sentences."""
    single, oracle = verdict.opponents
    return (
        *(_of_opponent(verdict, opponent) for opponent in _asked(verdict)),
        *(
            [f"{verdict.case}: the {oracle.name} takes that rate for every c, so this is its comparison too"]
            if len(oracle.choice) > 1 and oracle.choice == single.choice
            else []
        ),
        f"{verdict.case}: {ruin_in_words(verdict)}",
        # Where nothing can be concluded, no number of picks is set beside it.
        *([f"{verdict.case}: {curve_in_words(verdict.curve, single)}"] if single.outcome in _SAID else []),
        *([f"{verdict.case}: {further_in_words(verdict)}"] if single.further else []),
        *(f"{verdict.case}: {told}" for told in (starts_in_words(verdict), few_updates_in_words(verdict)) if told),
        _seeds_in_words(verdict),
    )


def _asked(verdict: Verdict) -> list[Opponent]:
    return [verdict.opponents[place] for place in verdict.asked]


def _of_opponent(verdict: Verdict, opponent: Opponent) -> str:
    against = f"the {opponent.name}"
    if opponent.name == SINGLE:
        against = f"the best single lr ({number(next(iter(opponent.choice.values())))})"
    arm, result = f"AutoLR {verdict.variant}", opponent.result
    difference = f"hypervolume, AutoLR minus hand-tuned, {result.mean:+.4f}"
    ahead = f"ahead on {result.ahead.count} of {result.n}" if result.ahead else ""
    ahead += f", equal on {result.tied}" if result.tied else ""
    seeds = counted(result.n, "seed" if verdict.same_seeds else "fresh seed")
    if opponent.outcome in _SAID:
        text = (
            f"{verdict.case}: {arm} {_SAID[opponent.outcome]} {against}: {difference}, p = {opponent.p_holm:.3g} "
            f"(mean of bounded differences{_corrected(opponent)}) over {seeds}, {ahead}; {interval_in_words(opponent)}"
        )
        more = _further(opponent) if opponent.outcome == UNDECIDED else opponent.edge.words() if opponent.edge else ""
        return f"{text}; {more}" if more else text
    if opponent.outcome == DESCRIBED:
        return f"{verdict.case}: {arm} against {against}, described and not tested: {difference} over {seeds}, {ahead}"
    why = opponent.edge.words() if opponent.edge else ""
    lacking = "" if opponent.outcome == OPEN else _lacking(opponent, same_seeds=verdict.same_seeds)
    so_far = "" if verdict.same_seeds or opponent.edge else f"; {interval_in_words(opponent)}"
    still = "open, " if opponent.outcome == OPEN else ""
    return (
        f"{verdict.case}: {still}nothing can be concluded about {arm} against {against} from {seeds}: "
        f"{'; '.join(filter(None, (lacking, why)))}. So far: {difference}, {ahead}, which proves nothing{so_far}"
    )


def _corrected(opponent: Opponent) -> str:
    count = opponent.comparisons
    first = ", the primary question, named beforehand" if opponent.primary else ""
    return first if count == 1 else f"{first}, Holm over the {count} {_family(opponent)}"


def _family(opponent: Opponent) -> str:
    return "problems it was asked on" if opponent.primary else "comparisons of this report"


def interval_in_words(opponent: Opponent) -> str:
    """``95% interval of the difference -0.12 to +0.43``; "" where nothing was tested."""
    if opponent.bounds is None:
        return ""
    low, high = (f"{'+' if end > 0 else ''}{number(end + 0.0)}" for end in opponent.bounds)  # no -0
    nothing = ", which excludes nothing" if opponent.bounds == (-1.0, 1.0) else ""
    return f"95% interval of the difference {low} to {high}{nothing}"


def _lacking(opponent: Opponent, *, same_seeds: bool) -> str:
    """What a test would need."""
    needed = opponent.fresh_least
    if same_seeds and opponent.result.n >= needed:
        return "the rates were chosen on the seeds they are reported on"
    corrected, each = "", ""
    if opponent.comparisons > 1:
        corrected, each = f", corrected for the {opponent.comparisons} {_family(opponent)},", " in each"
    text = f"a two-sided test at 5%{corrected} needs {needed} fresh ones{each} at least (--seeds {seeds_for(needed)})"
    return text if same_seeds else f"{text}; {_further(opponent)}"


def _further(opponent: Opponent) -> str:
    """How many seeds would do."""
    mean, needed = opponent.result.mean, opponent.fresh_needed
    if needed is None:
        return f"no number of seeds tells a mean difference of {number(mean)}"
    if needed <= opponent.result.n:
        return "more seeds may tell: these scatter too much"
    return (
        f"a difference of {mean:+.4f} on every seed takes {needed} fresh ones to tell (--seeds {seeds_for(needed)}), "
        "as a rare ruin may not have shown yet"
    )


def ruin_in_words(verdict: Verdict) -> str:
    """``ruined fronts, ...: AutoLR on 1 of 7 (0% to 58%) fresh seeds, 2 ruined runs of 14; ...``."""
    arm = (f"AutoLR {verdict.variant}", verdict.ruin)
    sides = [arm, *((f"the {item.name}", item.ruin) for item in _asked(verdict))]
    fresh = "" if verdict.same_seeds else "fresh "
    auto, *hand = (f"{name} {_ruined_seeds(found, fresh)}, {found.runs_in_words()}" for name, found in sides)
    other = verdict.other_ruin
    elsewhere = f" (on {verdict.others_in_words} {other.runs_in_words()})" if other.runs else ""
    counts = "; ".join([f"{auto}{elsewhere}", *hand])
    return f"fronts none of whose runs keeps the model, with exact 95% intervals: {counts}"


def _ruined_seeds(found: Ruin, fresh: str) -> str:
    """``on 1 of 7 (0% to 58%) fresh seeds``, and on how many it is not known."""
    unknown = f"not known on {counted(found.seeds_unknown, f'{fresh}seed')}" if found.seeds_unknown else ""
    known = f"on {found.seeds} {fresh}seeds" if found.seeds.n else ""
    return " and ".join(filter(None, (known, unknown)))


def further_in_words(verdict: Verdict) -> str:
    """``in other boxes, described and not tested: log retain loss, AutoLR 0.61, the best single lr 0.66``."""
    single, *others = _asked(verdict)
    told = []
    for box, sides in single.further.items():
        hands = [(item.name, item.further[box].hand) for item in (single, *others) if box in item.further]
        told.append(f"{box}, AutoLR {sides.auto:.4f}, {', '.join(f'the {name} {hand:.4f}' for name, hand in hands)}")
    return f"hypervolume in other boxes, described and not tested: {'; '.join(told)}"


def starts_in_words(verdict: Verdict) -> str:
    """That who is ahead depends on where AutoLR starts, by more than 5%; "" where it does not."""
    single = verdict.opponents[0]
    hand = sum(single.hand) / len(single.hand)
    low, high = min(verdict.of_starts), max(verdict.of_starts)
    if not low < (1 - WITHIN) * hand < (1 + WITHIN) * hand < high:
        return ""
    starts = zip(verdict.of_starts, verdict.starts, strict=True)
    told = ", ".join(f"{volume:.3f} from lr {number(start)}" for volume, start in starts)
    return (
        f"who is ahead depends on where AutoLR {verdict.variant} starts: hypervolume {told}, against {hand:.3f} of "
        f"the {single.name}; the verdict is on the mean over starts"
    )


def few_updates_in_words(verdict: Verdict) -> str:
    """That AutoLR had hardly a chance to adapt; "" where it had."""
    once = verdict.variant.partition("/")[0] in SETS_ITS_RATE_ONCE
    if verdict.updates is None or verdict.updates >= FEW_UPDATES or once:
        return ""
    return (
        f"AutoLR {verdict.variant} set its rate {counted(round(verdict.updates), 'time')} in a run (median): what it "
        "starts from decides most; more --epochs or a smaller --auto-lr-every let it adapt"
    )


def curve_in_words(curve: TuningCurve, opponent: Opponent) -> str:
    """``on average AutoLR, charged 1.03 runs, equals the best of 2.4 hand-picked learning rates``.

    Means only: where ``opponent``, the best single rate, is not shown to differ, that is said with them.
    """
    cost = f"on average AutoLR, charged {curve.charge:.2f} runs,"
    if math.isinf(curve.equals):
        tried = (
            "the only learning rate" if len(curve.picks) == 1 else f"the best of all {len(curve.picks)} learning rates"
        )
        text = f"{cost} is above {tried} tried"
        if max(curve.expected) >= curve.auto:
            text += " (not above the best of fewer: what is best on the tuning seeds is not best on these)"
        elif opponent.outcome == BETTER and len(curve.picks) > 1:
            text += ": no number of picks equals it"
    elif curve.auto <= 0:
        text = f"{cost} attains nothing"
    elif curve.equals <= 1:
        text = f"{cost} does no better than one learning rate picked at random"
    else:
        text = f"{cost} equals the best of {curve.equals:.1f} hand-picked learning rates"
    unsure = {
        UNDECIDED: "by less than these seeds can tell"
        if math.isinf(curve.equals)
        else "which these seeds do not prove",
        OPEN: "of a grid whose best rate may lie outside",
        TOO_FEW: "which is a description of these seeds and proves nothing",
    }
    return f"{text}, {unsure[opponent.outcome]}" if opponent.outcome in unsure else text


def _seeds_in_words(verdict: Verdict) -> str:
    fresh = seeds_in_words(verdict.fresh)
    if verdict.same_seeds:
        text = f"The learning rates were chosen and reported on the same {fresh}, which flatters hand-tuning"
    else:
        text = f"Learning rates chosen on {seeds_in_words(verdict.tuning)}, reported on fresh {fresh}"
    if verdict.left_out:
        text += f"; left out, as not every run of both sides ended there: {seeds_in_words(verdict.left_out)}"
    return f"{text}. {conditional_in_words(verdict)}"


def conditional_in_words(verdict: Verdict) -> str:
    """What the seeds did not vary: for anything else of its kind the verdict says nothing."""
    return _CONDITIONAL.get(verdict.seeds_vary, "The studies' seeds vary different things")
