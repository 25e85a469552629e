"""Which finished trial to take, by a named rule, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.errors import AnalysisError
from analysis.frontier.criteria import CRITERIA, meets_all
from analysis.frontier.frontier import frontier
from analysis.frontier.recommendation import recommend
from analysis.frontier.trade_off import Objective
from analysis.tables.trial_table import TrialTable
from analysis.words import counted, number

KNEE, CONSTRAINT, SUCCESS = "knee", "constraint", "success"
RULES = {
    KNEE: "the frontier's trial nearest to the ideal corner, objectives scaled to [0, 1]",
    CONSTRAINT: "the best utility (else the nearest to the ideal) among trials within the limits given",
    SUCCESS: "the best utility among trials that meet the paper's thresholds",
}
"""Every rule by name, with what it takes."""


@dataclass(frozen=True, slots=True)
class Limit:
    """``column <= bound`` or, with ``least``, ``column >= bound``."""

    column: str
    bound: float
    least: bool

    def met(self, value: object) -> bool:
        """Whether a cell is within the limit; a missing one is not."""
        if not isinstance(value, (int, float)) or math.isnan(value):
            return False
        return value >= self.bound if self.least else value <= self.bound

    def words(self) -> str:
        """``verbmem at most 0.1``."""
        return f"{self.column} {'at least' if self.least else 'at most'} {self.bound:g}"


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """A row of the trial table, how many trials were eligible, and the reason in a sentence."""

    row: pd.Series
    eligible: int
    reason: str


class NothingQualifies(AnalysisError):
    """No finished trial meets what was asked; the message says what comes nearest."""


def pick(
    table: TrialTable,
    objectives: Sequence[Objective],
    baseline: Mapping[str, float],
    *,
    rule: str = KNEE,
    limits: Sequence[Limit] = (),
) -> Pick:
    """The trial the rule takes, ``limits`` applied first whatever the rule.

    Of equals in utility the one with the lower verbmem is taken, then the one nearer to the ideal, then the first.

    Raises:
        NothingQualifies: no finished trial, none within the limits, or none that meets the thresholds.
        AnalysisError: an unknown rule, ``constraint`` without a limit, or a limit on a column that is not there.
    """
    if rule not in RULES:
        raise AnalysisError(f"unknown rule '{rule}': expected one of {', '.join(RULES)}")
    if rule == CONSTRAINT and not limits:
        raise AnalysisError("the rule constraint needs a limit, such as --max-verbmem 0.1")
    finished = table.finished
    if finished.empty:
        raise NothingQualifies(f"no trial has finished ({counted(len(table.trials), 'trial')} in the table)")
    for limit in limits:
        if limit.column not in finished.columns:
            raise AnalysisError(f"trials.csv has no column {limit.column} to put a limit on")
    within = finished
    for index, limit in enumerate(limits):
        kept = within[[limit.met(_python(value)) for value in within[limit.column]]]
        if kept.empty:
            best = within[limit.column].max() if limit.least else within[limit.column].min()
            before = " and ".join(item.words() for item in limits[:index])
            raise NothingQualifies(
                f"no finished trial has {limit.words()}"
                + (f" among the {counted(len(within), 'trial')} with {before}" if before else "")
                + f"; the {'highest' if limit.least else 'lowest'} of {'these' if before else 'all'} is "
                + number(float(best))
            )
        within = kept
    words = f" among {counted(len(within), 'finished trial')}" + "".join(
        f"{' with' if index == 0 else ' and'} {limit.words()}" for index, limit in enumerate(limits)
    )
    if rule == SUCCESS:
        within = within[[meets_all(row, baseline) is True for _, row in within.iterrows()]]
        if within.empty:
            asked = "; ".join(f"{item.column} {item.words()}" for item in CRITERIA)
            raise NothingQualifies(f"no trial{words} meets all thresholds ({asked})")
        words = f" among {counted(len(within), 'trial')} that meet the paper's thresholds"
    if rule == KNEE or "utility" not in within.columns or not within["utility"].notna().any():
        return _nearest(table, within, objectives, words)
    keys = {"utility": False} | ({"verbmem": True} if "verbmem" in within.columns else {})
    ordered = within.assign(_nearness=_nearness(within, objectives))
    keys["_nearness"] = True
    ordered = ordered.sort_values([*keys, "trial_id"], ascending=[*keys.values(), True], kind="stable")
    row = within.loc[ordered.index[0]]
    return Pick(row, len(within), f"the highest utility ({number(float(row['utility']))}){words}")


def _nearest(table: TrialTable, within: pd.DataFrame, objectives: Sequence[Objective], words: str) -> Pick:
    front = frontier(TrialTable(within, table.history, table.spec_columns), objectives)
    choice = recommend(front)
    if choice is None:
        raise NothingQualifies(f"none of the objectives was measured{words}")
    distance = f"distance {choice.distance:.3f} from the ideal corner, objectives scaled to [0, 1]"
    return Pick(front.members.iloc[choice.nearest], len(within), f"the knee of the frontier{words}: {distance}")


def _nearness(rows: pd.DataFrame, objectives: Sequence[Objective]) -> list[float]:
    """Euclidean distances of the costs from the ideal corner; NaN where an objective is missing."""
    costs = [objective.cost(rows[objective.column]) for objective in objectives if objective.column in rows.columns]
    return [math.hypot(*(float(axis[index]) for axis in costs)) for index in range(len(rows))]


def _python(value: object) -> object:
    item = getattr(value, "item", None)
    return item() if callable(item) else value
