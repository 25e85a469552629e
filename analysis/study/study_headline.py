"""The answer of a study in one sentence, for the top of its page and of what the console prints."""

from __future__ import annotations

from analysis.study.lost_seeds import lost_in_words
from analysis.study.lr_study import LrStudy
from analysis.study.no_verdict import NoVerdict
from analysis.study.verdict import BETTER, DESCRIBED, OPEN, TOO_FEW, UNDECIDED, WORSE, Verdict
from analysis.study.verdict_words import few_updates_in_words, starts_in_words
from analysis.words import counted

_SAID = {BETTER: "better than", WORSE: "worse than", UNDECIDED: "not shown to differ from"}
_NOTHING = {
    OPEN: "nothing can be concluded, as the best rate is at the edge of the grid,",
    TOO_FEW: "nothing can be concluded from so few seeds",
    DESCRIBED: "nothing is tested by objectives that were chosen afterwards",
}


def study_headline(study: LrStudy) -> str:
    """``AutoLR is better than the best single lr for ngdiff, AutoLR search/freshx4.``, a primary question first.

    What has no verdict is named with the reason. Ruined runs of either side, and runs of which ruin is not known, are
    named whatever the verdict: the hypervolume of losses hardly sees them.
    """
    if not study.verdicts and not study.without:
        return "No verdict: there is no run with a learning rate and a seed."
    first, others = _without_verdict(study, primary=True), _without_verdict(study, primary=False)
    return " ".join([*_never_asked(study), *first, *_verdicts(study), *others, *_ruin(study)])


def _never_asked(study: LrStudy) -> list[str]:
    """That the primary question is on nothing that was run."""
    if study.primary is None or any(_is_primary(study, item) for item in _asked_of(study)):
        return []
    return [f"The primary question is on {study.primary}, of which this study has no run."]


def _verdicts(study: LrStudy) -> list[str]:
    """All verdicts in a sentence; none without one."""
    verdicts = _primary_first(study)
    if not verdicts:
        return []
    told: dict[str, list[str]] = {}
    for verdict in verdicts:
        told.setdefault(_of_opponents(verdict), []).append(_subject(study, verdict))
    parts = [f"{text} for {' and '.join(subjects)}" for text, subjects in told.items()]
    seeds = {_seeds(verdict) for verdict in verdicts}
    text = "; ".join(parts) + (f" ({seeds.pop()})" if len(seeds) == 1 else "")
    return [f"AutoLR: {text}." if text.startswith("nothing") else f"AutoLR is {text}."]


def _seeds(verdict: Verdict) -> str:
    """``16 fresh seeds``, ``10 of 16 fresh seeds``."""
    count, planned = len(verdict.fresh), len(verdict.planned)
    if verdict.same_seeds:
        return f"{counted(count, 'seed')}, which also chose the rates"
    return counted(count, "fresh seed") if count == planned else f"{count} of {counted(planned, 'fresh seed')}"


def _without_verdict(study: LrStudy, *, primary: bool) -> list[str]:
    """``No verdict for npo and dpo: there is no run with AutoLR.``, of the primary question or of all others."""
    told: dict[str, list[str]] = {}
    for item in study.without:
        if primary == _is_primary(study, item):
            told.setdefault(item.why, []).append(_subject(study, item))
    return [f"No verdict for {' and '.join(subjects)}: {why}." for why, subjects in told.items()]


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
    """What weakens the headline: objectives chosen afterwards, lost seeds, the grid's edge, starts, few updates."""
    found = list(filter(None, [study.afterwards]))
    for of in (_lost, _edge, starts_in_words, few_updates_in_words):
        found += [f"{_subject(study, item)}: {told}." for item in study.verdicts if (told := of(item))]
    return tuple(dict.fromkeys(found))


def _lost(verdict: Verdict) -> str:
    return lost_in_words(verdict.lost, len(verdict.planned))


def _edge(verdict: Verdict) -> str:
    edge = verdict.opponents[0].edge
    return edge.words() if edge else ""


def _ruin(study: LrStudy) -> list[str]:
    """``For gdiff AutoLR has 20 ruined runs of 20, the best single lr has 0 ruined runs of 20.``, where any may be."""
    told: dict[str, list[str]] = {}
    for verdict in _primary_first(study):
        told.setdefault(_of_ruin(verdict), []).append(_subject(study, verdict))
    each = {text: " each" * (len(subjects) > 1) for text, subjects in told.items()}
    return [f"For {' and '.join(subjects)} {text}{each[text]}." for text, subjects in told.items() if text]


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


def _subject(study: LrStudy, item: Verdict | NoVerdict) -> str:
    """The method, and what tells it from the others; the primary question is marked."""
    several = len({case.place for case in study.grid.cases}) > 1
    variants = {other.variant for other in _asked_of(study) if other.variant}
    name = str(item.case) if several else item.case.method
    variant = f" ({item.variant})" if len(variants) > 1 and item.variant else ""
    return f"{name}{variant}" + (" (the primary question)" if _is_primary(study, item) else "")


def _is_primary(study: LrStudy, item: Verdict | NoVerdict) -> bool:
    return study.primary is not None and study.primary.asks(item.case.method, item.variant)


def _asked_of(study: LrStudy) -> list[Verdict | NoVerdict]:
    """Everything a verdict was asked of."""
    return [*study.verdicts, *study.without]
