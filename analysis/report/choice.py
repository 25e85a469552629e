"""Select and judge the model for the command ``pick``. Without a rule, ``pick`` selects the model of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.frontier.assessment import assess
from analysis.frontier.frontier import frontier
from analysis.frontier.judgement import choose_model, judge
from analysis.frontier.pick import KNEE, Best, pick
from analysis.report.answer import answer
from analysis.report.render import paragraphs, say
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.constraint import Constraint


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """The row of the selected model, the number of eligible models, and the reason for the selection as text."""

    row: pd.Series
    eligible: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChoiceJudged:
    """Whether the selected model is recommended, the outcome of the sweep, and sentences with findings and advice."""

    recommended: bool
    outcome: str
    lines: tuple[str, ...]


def choose(
    table: TrialTable,
    sweep: SweepFile,
    *,
    rule: str | None = None,
    limits: Sequence[Constraint] = (),
    best: Best | None = None,
) -> tuple[Taken, ChoiceJudged]:
    """Select a model by a rule. Without a rule, select the model that the report's answer names.

    Raises:
        AnalysisError: see :func:`analysis.frontier.pick.pick`.
    """
    choice = choose_model(table, sweep)
    given = answer(table, sweep, frontier(table.models, sweep.objectives), choice)
    if rule is None and best is None and given.model is not None and choice.row is not None:
        count = len(choice.rows)
        taken = Taken(choice.row, count, given.reason or say("pick.closest", count=count, noun=given.noun))
    else:
        found = pick(table, sweep, rule=rule or KNEE, limits=limits, best=best)
        taken = Taken(found.row, found.eligible, say("pick.reason", pick=found))
    alone = judge(taken.row.to_frame().T.infer_objects(), choice.thresholds, sweep.objectives)
    lines = paragraphs("judgement.assessed", assessment=assess(taken.row, choice.thresholds), outcome=alone.outcome)
    if not given.recommended and given.outcome:
        lines = (given.headline, given.advice, *lines)
    return taken, ChoiceJudged(alone.recommended, given.outcome, lines)
