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
class JudgedPick:
    """The selected model (``row``), and whether it is good.

    Attributes:
        eligible: the number of models from which the model was selected.
        reason: the reason for the selection as text.
        recommended: whether the model is recommended.
        outcome: the outcome of the sweep; "" if there is no model to judge.
        lines: sentences with findings and advice.
    """

    row: pd.Series
    eligible: int
    reason: str
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
) -> JudgedPick:
    """Select a model by a rule. Without a rule, select the model that the report's answer names.

    Raises:
        AnalysisError: see :func:`analysis.frontier.pick.pick`.
    """
    choice = choose_model(table, sweep)
    given = answer(table, sweep, frontier(table.models, sweep.objectives), choice)
    if rule is None and best is None and given.model is not None and choice.row is not None:
        row, eligible = choice.row, len(choice.rows)
        reason = given.reason or say("pick.closest", count=eligible, noun=given.noun)
    else:
        found = pick(table, sweep, rule=rule or KNEE, limits=limits, best=best)
        row, eligible, reason = found.row, found.eligible, say("pick.reason", pick=found)
    alone = judge(row.to_frame().T.infer_objects(), choice.thresholds, sweep.objectives)
    lines = paragraphs("judgement.assessed", assessment=assess(row, choice.thresholds), outcome=alone.outcome)
    if not given.recommended and given.outcome:
        lines = (given.headline, given.advice, *lines)
    return JudgedPick(row, eligible, reason, alone.recommended, given.outcome, lines)
