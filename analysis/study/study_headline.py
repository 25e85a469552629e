"""The answer of a study in one sentence, for the top of its page and of what the console prints."""

from __future__ import annotations

from analysis.study.lr_study import LrStudy
from analysis.study.verdict import BETTER, DESCRIBED, OPEN, TOO_FEW, UNDECIDED, WORSE, Verdict
from analysis.study.verdict_words import few_updates_in_words
from analysis.words import counted

_SAID = {BETTER: "better than", WORSE: "worse than", UNDECIDED: "not shown to differ from"}
_NOTHING = {
    OPEN: "nothing can be concluded, as the best rate is at the edge of the grid,",
    TOO_FEW: "nothing can be concluded from so few seeds",
    DESCRIBED: "nothing is tested by objectives that were chosen afterwards",
}


def study_headline(study: LrStudy) -> str:
    """``AutoLR is better than the best single lr for ngdiff, AutoLR search/freshx4.``, a primary question first.

    Ruined runs of either side, and runs of which ruin is not known, are named with it whatever the verdict: the
    hypervolume of losses hardly sees them.
    """
    if not study.verdicts:
        return "No verdict: no seed has a whole front at every fixed learning rate and one of AutoLR."
    verdicts = _primary_first(study)
    told: dict[str, list[str]] = {}
    for verdict in verdicts:
        told.setdefault(_of_opponents(verdict), []).append(_subject(study, verdict))
    parts = [f"{text} for {' and '.join(subjects)}" for text, subjects in told.items()]
    fresh = sorted({len(item.fresh) for item in verdicts})
    same = "" if not any(item.same_seeds for item in verdicts) else ", which also chose the rates"
    seeds = f" ({counted(fresh[0], 'fresh seed' if not same else 'seed')}{same})" if len(fresh) == 1 else ""
    text = "; ".join(parts)
    said = (f"AutoLR: {text}" if text.startswith("nothing") else f"AutoLR is {text}") + f"{seeds}."
    return " ".join([said, *_ruin(study)])


def _of_opponents(verdict: Verdict) -> str:
    """``better than the best single lr, worse than the per-c oracle``."""
    asked = [verdict.opponents[place] for place in verdict.asked]
    nothing = _NOTHING.get(asked[0].outcome)
    told: dict[str, list[str]] = {}
    for item in asked:
        if item.outcome in (BETTER, WORSE) or (item.outcome == UNDECIDED and nothing is None):
            told.setdefault(_SAID[item.outcome], []).append(f"the {item.name}")
    tested = ", ".join(f"{said} {' and '.join(names)}" for said, names in told.items())
    return tested if nothing is None else f"{nothing} but that it is {tested}," if tested else nothing


def _primary_first(study: LrStudy) -> list[Verdict]:
    return sorted(study.verdicts, key=lambda verdict: not verdict.opponents[0].primary)


def study_cautions(study: LrStudy) -> tuple[str, ...]:
    """What weakens the headline: objectives chosen afterwards, a best rate at the edge of the grid, few updates."""
    edges = [verdict for verdict in study.verdicts if verdict.opponents[0].edge]
    few = [verdict for verdict in study.verdicts if few_updates_in_words(verdict)]
    found = [
        f"{_subject(study, verdict)}: {verdict.opponents[0].edge.words()}."
        for verdict in edges
        if verdict.opponents[0].edge
    ]
    found = [*filter(None, [study.afterwards]), *found]
    return tuple(dict.fromkeys([*found, *(f"{_subject(study, item)}: {few_updates_in_words(item)}." for item in few)]))


def _ruin(study: LrStudy) -> list[str]:
    """``For gdiff AutoLR has 20 ruined runs of 20, the best single lr has 0 ruined runs of 20.``, where any may be."""
    told: dict[str, list[str]] = {}
    for verdict in _primary_first(study):
        told.setdefault(_of_ruin(verdict), []).append(_subject(study, verdict))
    return [f"For {' and '.join(subjects)} {text}." for text, subjects in told.items() if text]


def _of_ruin(verdict: Verdict) -> str:
    """AutoLR's ruin on all its seeds and the hand-tuned side's; "" where every run is known to keep the model."""
    single, other = verdict.opponents[0], verdict.other_ruin
    sides = {"AutoLR": verdict.ruin, f"the {single.name}": single.ruin}
    if any(ruin.runs for ruin in (*sides.values(), other)):
        elsewhere = f", on {verdict.others_in_words} {other.runs_in_words()}" if other.runs else ""
        auto, hand = (f"{name} has {ruin.runs_in_words()}" for name, ruin in sides.items())
        return f"{auto}{elsewhere}, {hand}"
    unknown = [f"{name} {ruin.runs_unknown} of {ruin.of + ruin.runs_unknown}" for name, ruin in sides.items()]
    known = not any(ruin.runs_unknown for ruin in sides.values())
    return "" if known else f"it is not known whether runs are ruined: {', '.join(unknown)}"


def _subject(study: LrStudy, verdict: Verdict) -> str:
    """The method, and what tells it from the others; the primary question is marked."""
    several = len({case.place for case in study.grid.cases}) > 1
    variants = {item.variant for item in study.verdicts}
    name = str(verdict.case) if several else verdict.case.method
    variant = f" ({verdict.variant})" if len(variants) > 1 else ""
    return f"{name}{variant}" + (" (the primary question)" if verdict.opponents[0].primary else "")
