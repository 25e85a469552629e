"""A judgement in sentences: what was found, by which thresholds, and which knob to turn next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from analysis.frontier.judgement import Judgement, Outcome
from analysis.frontier.selection import Decision, Selection, repetition_of
from analysis.frontier.thresholds import FORGETTING, KEEPING, SIDES, Thresholds, asks_for
from analysis.tables.columns import short
from analysis.tables.trial_table import auto_lr_on, finite_cell, numbers
from analysis.words import counted, number
from search_spaces.constraint import Constraint

_WHAT = {FORGETTING: "forgotten", KEEPING: "kept"}
_VERBS = {FORGETTING: "forgets", KEEPING: "keeps"}


def headline(
    judgement: Judgement, rows: pd.DataFrame, thresholds: Thresholds, *, take: str, noun: str = "trial"
) -> str:
    """``Nothing was forgotten: verbmem is 0.883 or above in all 5 trials, wanted below 0.1.``; of a good one ``take``.

    ``noun`` is what a row is.
    """
    if judgement.recommended or judgement.place is None:
        return take
    found = judgement.outcome.capitalize()
    if judgement.outcome is Outcome.ONE_SIDED:
        why = _why_unknown(rows.iloc[judgement.place], judgement.unknown, thresholds)
        return f"{found}: {why}, so no {noun} is shown to be a good trade-off."
    if judgement.outcome is Outcome.NOT_ASKED:
        unknown = _unknown(rows.iloc[judgement.place], thresholds)
        return f"{found}: {', '.join(map(str, unknown))}, so no {noun} is shown to be what was asked for."
    if judgement.outcome is Outcome.REPETITIVE:
        row = rows.iloc[judgement.place]
        least, before = (
            number(repetition_of(scores, thresholds.columns, "retain")) for scores in (row, thresholds.baseline_of(row))
        )
        return (
            f"{found}: no {noun} of the {judgement.judged} that are otherwise acceptable answers retained questions "
            f"fluently. Repetition is at least {least}; the target's is {before}."
        )
    if judgement.decisive is None:
        return f"{found}: none of {counted(judgement.judged, noun)} meets the thresholds for both sets."
    item, best = judgement.decisive
    if judgement.outcome is Outcome.MISSED:
        ends = f"{'at most' if item.sign.startswith('>') else 'at least'} {number(best)}"
        return f"{found}: where enough is forgotten and kept {short(item.name)} is {ends}, wanted {item.words()}."
    beyond = "or below" if item.sign.startswith(">") else "or above"
    which = f"the only {noun}" if judgement.judged == 1 else f"all {counted(judgement.judged, noun)}"
    if numbers(rows, item.name).nunique() == 1:
        beyond = ""
    judged = "" if judgement.judged == len(rows) else " that could be judged"
    is_at = " ".join(filter(None, (f"{short(item.name)} is {number(best)}", beyond)))
    return f"{found}: {is_at} in {which}{judged}, wanted {item.words()}."


_DECISIONS = {
    Decision.ONLY: "it is the only one left",
    Decision.TRADE_OFF: "it is the nearest to the ideal corner",
    Decision.FLUENCY: "it is among the nearest to the ideal corner, and its forget answers repeat themselves least",
}


def selected_by(selection: Selection, outcome: Outcome, noun: str) -> str:
    """Say why the model was selected among the acceptable ones; ``noun`` is what a row is."""
    meets = "meet the thresholds" if outcome is Outcome.GOOD else "are not known to be bad"
    why = _DECISIONS[selection.decision]
    if selection.eligible == 1:
        return f"No other {noun} meets the thresholds." if outcome is Outcome.GOOD else f"No other {noun} is as good."
    reasons = {
        "because their retained answers repeat themselves": selection.repeating,
        "because less of them was measured": selection.unmeasured,
        f"because another {noun} is better in one score and, to within 2%, as good in all others": selection.beaten,
    }
    left_out = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    if not left_out:
        return f"Of {counted(selection.eligible, noun)} that {meets}, {why}."
    return f"{counted(selection.eligible, noun)} {meets}. Left out: {left_out}. Of the rest, {why}."


def _fluency_unknown(row: pd.Series, thresholds: Thresholds) -> Iterator[str]:
    """Yield a sentence if the answers of a language model were not checked for repetition."""
    columns = thresholds.columns
    is_language = any(columns.is_loss(name) and "token" in columns[name].unit for name in columns.entries)
    names = columns.repetition("retain")
    if is_language and names and not any(_there(row, name) for name in names):
        yield "Repetition in its answers was not measured (--metrics default), so looping answers cannot be ruled out."


def advice(judgement: Judgement, rows: pd.DataFrame, thresholds: Thresholds, *, diverged: pd.DataFrame) -> str:
    """What to do next, by the models judged and the trials that diverged; "" where there is a model to take."""
    if judgement.recommended:
        return ""
    knobs, unjudged = _knobs(judgement, rows, thresholds, diverged=diverged), len(rows) - judgement.judged
    if not unjudged or not judgement.judged:
        return knobs
    others = f"{unjudged} of {len(rows)} are known by their losses alone, and may be better: 'evaluate' measures them."
    return f"{knobs} {others}".strip()


def _knobs(judgement: Judgement, rows: pd.DataFrame, thresholds: Thresholds, *, diverged: pd.DataFrame) -> str:
    if judgement.outcome in (Outcome.NOTHING_FORGOTTEN, Outcome.TOO_LITTLE):
        return f"To forget more: {', '.join(_to_forget(rows, diverged))}."
    if judgement.outcome is Outcome.REPETITIVE:
        return f"To keep the answers fluent: {', '.join(_to_keep(rows))}."
    if judgement.outcome in (Outcome.LOST, Outcome.TOO_MUCH):
        return f"To keep more: {', '.join(_to_keep(rows))}."
    if judgement.outcome is Outcome.MISSED and judgement.decisive:
        item, _ = judgement.decisive
        return (
            f"To meet {short(item.name)} {item.words()}: search more settings (more --trials), try another --method, "
            "or state another threshold (--constraint)."
        )
    if judgement.outcome is Outcome.ONE_SIDED and judgement.place is not None:
        if thresholds.keeps_nothing(rows.iloc[judgement.place]):
            return "To have something to keep, begin with a target that knows the retain set (--target-epochs)."
        instead = thresholds.stand_ins(rows.iloc[judgement.place]).get(judgement.unknown)
        if instead is not None and not thresholds.columns.is_loss(instead.least.name):
            return f"To judge it, state a threshold (--constraint '{instead.proof}' or another)."
        return f"To judge it, measure what is {_WHAT[judgement.unknown]} (--metrics)."
    if judgement.outcome is Outcome.NOT_ASKED and judgement.place is not None:
        row = rows.iloc[judgement.place]
        if all(_there(row, item.name) for item in _unknown(row, thresholds)):
            return "To judge it, state a number and no share (--constraint): No-unlearn's value is not known, or 0."
        return "To judge it, measure what the thresholds stated are about (--metrics)."
    if judgement.outcome is Outcome.NO_TRADE_OFF and not judgement.near:
        return "Nothing here does both: train longer at a lower rate (--epochs, --lr), or try another --method."
    if judgement.outcome is Outcome.NO_TRADE_OFF:
        return (
            "What forgets enough here loses too much, and what keeps enough forgets too little: search between them "
            "(more --trials), train longer at a lower rate (--epochs, --lr), or try another --method."
        )
    return ""


def judged_by(judgement: Judgement, row: pd.Series, thresholds: Thresholds) -> Iterator[str]:
    """What the row meets and misses, by whose thresholds, and what could not be judged."""
    verdicts = thresholds.verdicts(row)
    stated = {item: verdict for item, verdict in verdicts.items() if item in thresholds.stated}
    papers = {item: verdict for item, verdict in verdicts.items() if item not in stated}
    yield from _held(row, stated, "the thresholds stated")
    yield from _held(row, papers, "the paper's thresholds" + (" beside those stated" if stated else ""))
    yield from _set_aside(row, thresholds)
    lacking = [short(item.name) for item, verdict in verdicts.items() if verdict is None and not _there(row, item.name)]
    alone = [item.name for item, verdict in verdicts.items() if verdict is None and _there(row, item.name)]
    judged = judgement.outcome is not Outcome.NOT_JUDGED
    if lacking:
        only = "" if judged else ": it is nearest to the ideal by the objectives alone"
        yield f"Not measured, and so not judged: {', '.join(dict.fromkeys(lacking))}{only}."
    baseline = thresholds.baseline_of(row)
    for why, names in (
        ("not known", [name for name in alone if name not in baseline]),
        ("0", [name for name in alone if name in baseline]),
    ):
        if names:
            yield f"Not judged, as No-unlearn's is {why}: {', '.join(dict.fromkeys(map(short, names)))}."
    yield from _told_by_stand_ins(row, thresholds, losses=judged)
    yield from _fluency_unknown(row, thresholds)


def _held(row: pd.Series, verdicts: Mapping[Constraint, bool | None], whose: str) -> Iterator[str]:
    met, missed = (
        "; ".join(f"{_value(row, item)} ({item.words()})" for item, verdict in verdicts.items() if verdict is side)
        for side in (True, False)
    )
    if missed:
        yield f"Of {whose} it misses {missed}" + (f" and meets {met}." if met else ".")
    elif met:
        some = "Of" if None in verdicts.values() else "It meets"
        yield f"{some} {whose}" + (f" it meets {met}." if some == "Of" else f": {met}.")


def _set_aside(row: pd.Series, thresholds: Thresholds) -> Iterator[str]:
    """What the row misses of the paper's thresholds that do not hold, as others are stated on the same set."""
    asked, baseline = thresholds.verdicts(row), thresholds.baseline_of(row)
    missed = [
        f"{_value(row, item)} ({item.words()})"
        for item in thresholds.aside
        if item not in asked and item.met(finite_cell(row, item.name), baseline.get(item.name)) is False
    ]
    if missed:
        yield f"Not asked, as others are stated on that set, and missed: {'; '.join(missed)}."


def _told_by_stand_ins(row: pd.Series, thresholds: Thresholds, *, losses: bool) -> Iterator[str]:
    """Of each side no threshold tells of what does, if anything; of losses only where they were looked at for that."""
    sides, stand_ins = thresholds.sides(row), thresholds.stand_ins(row)
    for side in SIDES:
        item, verb = stand_ins.get(side), _VERBS[side]
        if side == FORGETTING and not sides.get(side):
            yield from _met_before(row, thresholds)
        if sides.get(side) or (not losses and (item is None or thresholds.columns.is_loss(item.least.name))):
            continue
        if item is None or not _there(row, item.least.name):
            yield f"Nothing is known of what it {verb}."
            continue
        short_of = thresholds.held(row).get(item.least) is False
        wanted = f"wanted {item.least.words()}" if short_of else item.proof.words()
        told = "is told" if side in sides else "is not shown"
        yield f"What it {verb} {told} by the {_value(row, item.least, between=': ')} ({wanted})."


def _why_unknown(row: pd.Series, side: str, thresholds: Thresholds) -> str:
    item = thresholds.stand_ins(row).get(side)
    if item is not None and _there(row, item.least.name):
        return f"what is {_WHAT[side]} is not shown by the {_value(row, item.least)} (wanted {item.proof.words()})"
    if side == KEEPING and thresholds.keeps_nothing(row):
        return "the model before unlearning keeps nothing itself"
    return f"nothing is known of what is {_WHAT[side]}"


def _unknown(row: pd.Series, thresholds: Thresholds) -> list[Constraint]:
    """The thresholds stated of which it is not known whether the row meets them."""
    return [item for item, verdict in thresholds.verdicts(row).items() if verdict is None and item in thresholds.stated]


def _met_before(row: pd.Series, thresholds: Thresholds) -> Iterator[str]:
    """What shows no forgetting, as the model before unlearning meets it, too."""
    baseline = thresholds.baseline_of(row)
    for item, verdict in thresholds.verdicts(row).items():
        before = baseline.get(item.name)
        if verdict and asks_for(item, thresholds.columns) == FORGETTING and item.met(before, before):
            name = short(item.name).capitalize()
            yield f"{name} does not show what it forgets: No-unlearn's {number(before or 0.0)} meets that, too."


def _value(row: pd.Series, item: Constraint, *, between: str = " ") -> str:
    return f"{short(item.name)}{between}{number(float(row[item.name]))}"


def _to_forget(rows: pd.DataFrame, diverged: pd.DataFrame) -> Iterator[str]:
    yield f"more epochs (--epochs{_now(rows, 'epochs')}{_steps(rows)})"
    yield f"a higher learning rate (--lr{_reach(rows, 'lr', 'up to')}{_too_high(rows, diverged)})"
    yield f"smaller batches (--batch-size{_now(rows, 'batch_size')})"
    if numbers(rows, "c").notna().any():
        yield f"less weight on the retain set (--c{_reach(rows, 'c', 'down to')})"


def _to_keep(rows: pd.DataFrame) -> Iterator[str]:
    yield f"a lower learning rate (--lr{_reach(rows, 'lr', 'down to')})"
    if numbers(rows, "c").notna().any():
        yield f"more weight on the retain set (--c{_reach(rows, 'c', 'up to')})"
    yield f"fewer epochs (--epochs{_now(rows, 'epochs')})"
    if not auto_lr_on(rows).any():
        yield "a rate that adapts (--auto-lr on)"


def _now(rows: pd.DataFrame, name: str) -> str:
    values = sorted(set(numbers(rows, name).dropna()))
    return f", now {' and '.join(f'{value:g}' for value in values)}" if 0 < len(values) < 3 else ""


def _steps(rows: pd.DataFrame) -> str:
    most = numbers(rows, "steps").max()
    return f": {most:.0f} steps" if most == most else ""


def _reach(rows: pd.DataFrame, name: str, way: str) -> str:
    values = numbers(rows, name).dropna()
    return f", {way} {number(float(values.max() if way == 'up to' else values.min()))} so far" if len(values) else ""


def _too_high(rows: pd.DataFrame, diverged: pd.DataFrame) -> str:
    """The lowest rate at which a trial diverged, where it is above all those that did not."""
    lowest = numbers(diverged, "lr").min()
    return f"; {number(float(lowest))} diverged" if lowest > numbers(rows, "lr").max() else ""


def _there(row: pd.Series, name: str) -> bool:
    return finite_cell(row, name) is not None
