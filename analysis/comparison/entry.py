"""One configuration's numbers in a table: means over its seeds, what it lost, and how many of its seeds succeed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

import pandas as pd

from analysis.comparison.table import Entry, Value, of_all
from analysis.study.placed_trials import PlacedTrial, PlacedTrials
from analysis.tables.columns import Columns
from analysis.tables.out_of_bounds import is_possible
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import finite_cell
from analysis.words import counted, number, policy_in_words
from search_spaces.constraint import Constraint, all_met


def entry_of(members: Sequence[PlacedTrial], placed: PlacedTrials, metrics: Sequence[str], targets: SweepFile) -> Entry:
    """The entry of a configuration, of which ``members`` are all trials, also those that were lost."""
    done = [trial.row for trial in members if trial.row["status"] == "finished"]
    seeds = [trial.seed for trial in members if trial.seed is not None]
    numbers = tuple(sorted(seeds)) if len(seeds) == len(members) else ()
    values = {name: value for name in metrics if (value := _value(done, name, placed.columns, targets)) is not None}
    verdicts = [succeeds(row, placed.columns, targets) for row in done]
    success, outcome = _outcome(verdicts, len(members) - len(done), "seed" if numbers else "run")
    lost = len(members) - len(done)
    label = _label(members[0], placed.setting_columns)
    return Entry(label, len(done), lost, values, success, outcome, verdicts.count(True), numbers)


def succeeds(row: pd.Series, columns: Columns, targets: SweepFile) -> bool | None:
    """Whether a finished trial meets all thresholds; None where one cannot be judged and none is missed.

    What cannot be, such as a percentage in the place of a share, is not judged.
    """

    def value(name: str) -> float | None:
        found = finite_cell(row, name)
        return found if found is not None and is_possible(found, name, columns) else None

    return columns.success(value, targets.baseline_of(row))


def _label(trial: PlacedTrial, setting_columns: Sequence[str]) -> str:
    rate = [] if trial.lr is None else [f"lr {number(trial.lr)}"]
    options = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in zip(setting_columns, trial.setting, strict=True)
        if value is not None
    ]
    return ", ".join([*([policy_in_words(trial.variant, trial.lr)] if trial.variant else rate), *options])


def _value(done: Sequence[pd.Series], name: str, columns: Columns, targets: SweepFile) -> Value | None:
    found = [(row, score) for row in done if (score := finite_cell(row, name)) is not None]
    if not found:
        return None
    scores = [score for _, score in found]
    mean, deviation = math.fsum(scores) / len(scores), stdev(scores) if scores[1:] else None
    before = [targets.baseline_of(row).get(name) for row, _ in found]
    possible = all(is_possible(score, name, columns) for score in scores)
    met = _met(columns[name].threshold, mean, scores, before) if possible else None
    return Value(mean, deviation, met, len(scores))


def _outcome(verdicts: Sequence[bool | None], lost: int, unit: str) -> tuple[bool | None, str]:
    """What the seeds come to, and that in words: ``yes``, or counted ``yes (2 of 3 seeds succeed, 1 lost)``.

    Where some succeed and some miss a threshold it is ``2 of 3 seeds succeed``.
    """
    met, missed, unknown = (verdicts.count(verdict) for verdict in (True, False, None))
    seeds = len(verdicts) + lost
    rest = "".join(f", {count} {word}" for count, word in ((lost, "lost"), (unknown, "not judged")) if count)
    if met:
        words = f"{of_all(met, seeds, unit)} {'succeeds' if met == 1 else 'succeed'}{rest}"
        return (True, "yes") if met == seeds else (None, words if missed else f"yes ({words})")
    if missed:
        words = f"{of_all(missed, seeds, unit)} {'misses' if missed == 1 else 'miss'} a threshold{rest}"
        return (None if unknown else False), ("no" if missed == seeds else f"no ({words})")
    return None, "\u2013" if verdicts else f"\u2013 ({counted(lost, unit)} lost)"


def _met(
    threshold: Constraint | None, mean: float, scores: Sequence[float], before: Sequence[float | None]
) -> bool | None:
    """Whether the mean of ``scores`` meets a threshold; of seeds with targets of their own, each against its own.

    Where each does the mean does, whatever rounding says.

    ``before`` is what the target of each score has, None where it was not measured.
    """
    if threshold is None:
        return None
    each = all_met(threshold.met(*pair) for pair in zip(scores, before, strict=True))
    if each or (threshold.relative and len(set(before)) > 1):
        return each
    return threshold.met(mean, before[0])
