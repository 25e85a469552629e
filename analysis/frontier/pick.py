"""Which model to take, by a named rule, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.frontier import frontier, gained, recommend, takeable
from analysis.frontier.thresholds import thresholds_of
from analysis.tables.columns import short
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, Objective, scored
from analysis.tables.trial_table import TrialTable, numbers
from analysis.words import counted, number
from search_spaces.constraint import Constraint
from search_spaces.messages import expected_one_of, found_instead

KNEE, CONSTRAINT, SUCCESS = "knee", "constraint", "success"
RULES = (KNEE, CONSTRAINT, SUCCESS)
"""The frontier's trial nearest to the ideal corner; the best by the primary metric of the retain set within limits, or
among trials that meet the paper's thresholds."""


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """A row of the table of models, with its ``epoch``, how many were eligible, and the reason in a sentence."""

    row: pd.Series
    eligible: int
    reason: str


@dataclass(frozen=True, slots=True)
class Best:
    """The column that is to be as large ("max") or as small ("min") as can be had."""

    column: str
    direction: str

    @property
    def words(self) -> str:
        """``maximize utility``."""
        return f"{self.direction}imize {self.column}"

    def oriented(self, values: npt.ArrayLike) -> Floats:
        """``values`` with the sign that makes smaller better."""
        array = np.asarray(values, dtype=np.float64)
        return array if self.direction == "min" else -array


class NothingQualifies(AnalysisError):
    """No finished trial meets what was asked; the message says what comes nearest."""


def pick(
    table: TrialTable,
    sweep: SweepFile,
    *,
    rule: str = KNEE,
    limits: Sequence[Constraint] = (),
    best: Best | None = None,
) -> Pick:
    """The model of a sweep that the rule takes, ``limits`` applied first whatever the rule.

    It is the end of a finished trial or, where every epoch counts, one on the frontier; then not one that has hardly
    begun to unlearn, if there is another. With ``best`` the rule only says what qualifies; of all that does, what has
    hardly begun included, the best in that column is taken, of equals the one nearest to the ideal.
    Of equals in the primary metric of the retain set the one better in that of the forget set is taken, then the one
    nearer to the ideal, then the first.

    Raises:
        NothingQualifies: no finished trial, none within the limits, or none that meets the thresholds.
        AnalysisError: an unknown rule, ``constraint`` without a limit, or a limit on a column that is not there.
    """
    if rule not in RULES:
        raise AnalysisError(f"unknown rule '{rule}': {expected_one_of(rule, RULES)}")
    if rule == CONSTRAINT and not limits and best is None:
        raise AnalysisError("the rule constraint needs a limit")
    objectives = sweep.objectives
    models = takeable(table, objectives).trials
    what = "epoch" if table.every_epoch else "trial"
    if models.empty:
        raise NothingQualifies(f"no trial has finished ({counted(len(table.trials), 'trial')} in the table)")
    within = _within(models, limits, sweep, what)
    if table.every_epoch and best is None:
        within = within[gained(within, sweep)]
    words = f" among {counted(len(within), 'epoch' if what == 'epoch' else 'finished trial')}" + "".join(
        f"{' with' if index == 0 else ' and'} {limit.name} {limit.words()}" for index, limit in enumerate(limits)
    )
    if rule == SUCCESS:
        thresholds = thresholds_of(sweep)
        within = within[[thresholds.good(row) for _, row in within.iterrows()]]
        if within.empty:
            asked = "; ".join(f"{item.name} {item.words()}" for item in thresholds.all)
            raise NothingQualifies(f"no {what}{words} meets all thresholds ({asked or 'this table has none'})")
        words = f" among {counted(len(within), what)} that meet the thresholds, as far as they were measured"
    if best is not None:
        return _best(within, best, objectives, words)
    # What is to be kept decides before what is to be forgotten.
    columns = table.columns
    primaries = columns.primaries(table.of(within).measured(columns.metrics))
    keys = [item for name in reversed(primaries) if (item := columns.objective(name))]
    if rule == KNEE or not keys or columns[keys[0].column].of != "retain":
        return _nearest(table.of(within), objectives, words)
    distance = np.linalg.norm(scored(within, objectives)[1], axis=1)
    costs = [item.oriented(numbers(within, item.column)) for item in keys]
    # The last key is the first to sort by; NaN comes last.
    row = within.iloc[
        int(np.lexsort([within["step"].to_numpy(), within["trial_id"].to_numpy(), distance, *reversed(costs)])[0])
    ]
    most, column = "highest" if keys[0].direction == "max" else "lowest", keys[0].column
    return Pick(row, len(within), f"the {most} {short(column)} ({number(float(row[column]))}){words}")


def numeric_columns(models: pd.DataFrame) -> tuple[str, ...]:
    """The columns of a table of models that have a number."""
    return tuple(
        name
        for name in map(str, models.columns)
        if not pd.api.types.is_bool_dtype(models[name]) and np.isfinite(numbers(models, name)).any()
    )


def _best(within: pd.DataFrame, best: Best, objectives: Sequence[Objective], words: str) -> Pick:
    values = numbers(within, best.column)
    there = np.isfinite(values)
    if not there.any():
        raise NothingQualifies(f"{best.column} was not measured{words}")
    rows, costs = within[there], best.oriented(values[there])
    distance = np.linalg.norm(scored(rows, objectives)[1], axis=1)
    row = rows.iloc[int(np.lexsort([rows["step"].to_numpy(), rows["trial_id"].to_numpy(), distance, costs])[0])]
    most = "highest" if best.direction == "max" else "lowest"
    return Pick(row, len(rows), f"the {most} {short(best.column)} ({number(float(row[best.column]))}){words}")


def _within(models: pd.DataFrame, limits: Sequence[Constraint], sweep: SweepFile, what: str) -> pd.DataFrame:
    """The models within all limits; a missing value is within none."""
    within = models
    for index, limit in enumerate(limits):
        if limit.name not in models.columns:
            there = found_instead([limit.name], models.columns)
            raise AnalysisError(f"trials.csv has no column {limit.name} to put a limit on: {there}")
        if limit.relative and limit.name not in sweep.baseline:
            raise AnalysisError(f"constraint {limit}: the sweep's No-unlearn model has no {limit.name}")
        values = numbers(within, limit.name)
        before = (sweep.baseline_of(row).get(limit.name) for _, row in within.iterrows())
        kept = within[[limit.met(*pair) is True for pair in zip(values, before, strict=True)]]
        if kept.empty:
            least = limit.sign.startswith(">")
            earlier = " and ".join(f"{item.name} {item.words()}" for item in limits[:index])
            raise NothingQualifies(
                f"no {'epoch' if what == 'epoch' else 'finished trial'} has {limit.name} {limit.words()}"
                + (f" among the {counted(len(within), what)} with {earlier}" if earlier else "")
                + f"; the {'highest' if least else 'lowest'} of {'these' if earlier else 'all'} is "
                + number(float(values.max() if least else values.min()))
            )
        within = kept
    return within


def _nearest(within: TrialTable, objectives: Sequence[Objective], words: str) -> Pick:
    front = frontier(within, objectives)
    choice = recommend(front)
    if choice is None:
        raise NothingQualifies(f"none of the objectives was measured{words}")
    distance = f"distance {choice.distance:.3f} from the ideal corner, objectives scaled to [0, 1]"
    row = front.members.iloc[choice.nearest]
    return Pick(row, len(within.trials), f"the knee of the frontier{words}: {distance}")
