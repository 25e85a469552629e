"""A judgement in sentences: what was found, by which thresholds, and which knob to turn next."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.frontier.judgement import FORGETTING, KEEPING, Judgement, Outcome, Thresholds
from analysis.tables.columns import short
from analysis.tables.trial_table import auto_lr_on, numbers
from analysis.words import counted, number

_WHAT = {FORGETTING: "forgotten", KEEPING: "kept"}
_VERBS = {FORGETTING: "forgets", KEEPING: "keeps"}


def headline(judgement: Judgement, rows: pd.DataFrame, *, take: str, noun: str = "trial") -> str:
    """``Nothing was forgotten: verbmem is 0.883 or above in all 5 trials, wanted below 0.1.``; of a good one ``take``.

    ``noun`` is what a row is.
    """
    if judgement.recommended:
        return take
    found = judgement.outcome.capitalize()
    if judgement.outcome is Outcome.ONE_SIDED:
        return f"{found}: nothing is known of what is {_WHAT[judgement.unknown]}, so no {noun} is a good trade-off."
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


def advice(judgement: Judgement, rows: pd.DataFrame) -> str:
    """Which knob to turn; "" where there is a model to take."""
    if judgement.outcome in (Outcome.NOTHING_FORGOTTEN, Outcome.TOO_LITTLE):
        return f"To forget more: {', '.join(_to_forget(rows))}."
    if judgement.outcome in (Outcome.LOST, Outcome.TOO_MUCH):
        return f"To keep more: {', '.join(_to_keep(rows))}."
    if judgement.outcome is Outcome.MISSED and judgement.decisive:
        item, _ = judgement.decisive
        return (
            f"To meet {short(item.name)} {item.words()}: search more settings (more --trials), try another --method, "
            "or state another threshold (--constraint)."
        )
    if judgement.outcome is Outcome.ONE_SIDED:
        return f"To judge it, measure what is {_WHAT[judgement.unknown]} (--metrics)."
    if judgement.outcome is Outcome.NO_TRADE_OFF:
        return (
            "What forgets enough here loses too much, and what keeps enough forgets too little: search between them "
            "(more --trials), train longer at a lower rate (--epochs, --lr), or try another --method."
        )
    return ""


def judged_by(judgement: Judgement, row: pd.Series, thresholds: Thresholds) -> Iterator[str]:
    """What the row meets and misses, by whose thresholds, and what could not be judged."""
    verdicts = thresholds.verdicts(row)
    parts = {
        met: [
            f"{short(item.name)} {number(float(row[item.name]))} ({item.words()})"
            for item, verdict in verdicts.items()
            if verdict is met
        ]
        for met in (True, False)
    }
    met, missed = ("; ".join(parts[side]) for side in (True, False))
    if met and not missed:
        yield f"It meets {thresholds.whose}: {met}."
    elif missed:
        yield f"Of {thresholds.whose} it misses {missed}" + (f" and meets {met}." if met else ".")
    lacking = [short(item.name) for item, verdict in verdicts.items() if verdict is None and not _there(row, item.name)]
    alone = [item.name for item, verdict in verdicts.items() if verdict is None and _there(row, item.name)]
    if lacking:
        only = "" if judgement.outcome is not Outcome.NOT_JUDGED else ": it is nearest to the ideal by its losses alone"
        yield f"Not measured, and so not judged: {', '.join(dict.fromkeys(lacking))}{only}."
    baseline = thresholds.baseline_of(row)
    for why, names in (
        ("not known", [name for name in alone if name not in baseline]),
        ("0", [name for name in alone if name in baseline]),
    ):
        if names:
            yield f"Not judged, as No-unlearn's is {why}: {', '.join(dict.fromkeys(map(short, names)))}."
    if judgement.outcome is Outcome.NOT_JUDGED:
        return
    sides, losses = thresholds.sides(row), thresholds.losses(row)
    for side, verb in _VERBS.items():
        loss = losses.get(side)
        if side not in sides:
            yield f"Nothing is known of what it {verb}."
        elif loss is not None and not sides[side]:
            value = number(float(row[loss.name]))
            yield f"What it {verb} is told by the {short(loss.name)}: {value} ({loss.words()})."


def _to_forget(rows: pd.DataFrame) -> Iterator[str]:
    yield f"more epochs (--epochs{_now(rows, 'epochs')}{_steps(rows)})"
    yield f"a higher learning rate (--lr{_reach(rows, 'lr', 'up to')})"
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


def _there(row: pd.Series, name: str) -> bool:
    value = row.get(name)
    return isinstance(value, (int, float)) and value == value
