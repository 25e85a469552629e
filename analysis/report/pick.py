"""The model that the command ``pick`` chooses, with the reason and its comparison with the criterion."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.frontier.choice import Outcome, choose, choose_model
from analysis.frontier.criterion import criterion_of
from analysis.frontier.frontier import frontier
from analysis.frontier.pick import KNEE, Best, NothingQualifies, pick
from analysis.report.answer import answer, forget_answers, model_lines
from analysis.report.render import render_line, render_lines
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.constraint import Constraint


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPick:
    """A selected model, and its comparison with the criterion. All fields are about this model.

    Attributes:
        eligible: the number of models from which the model was selected.
        reason: why the model was selected, as text.
        outcome: whether the model is ``good``, ``missed`` a requirement, or whether this is ``not_known``.
        lines: sentences that compare the model with the criterion.
    """

    row: pd.Series
    eligible: int
    reason: str
    outcome: str
    lines: tuple[str, ...]

    @property
    def recommended(self) -> bool:
        return self.outcome == Outcome.GOOD


def judged_pick(
    table: TrialTable,
    sweep: SweepFile,
    *,
    rule: str | None = None,
    limits: Sequence[Constraint] = (),
    best: Best | None = None,
    robust: bool = False,
) -> JudgedPick:
    """Select a model by a rule or a column. Without ``rule`` and ``best``, select the model that the report shows.

    With ``robust``, select the best model under attack (:func:`~analysis.frontier.choice.choose_model`).
    """
    if rule is None and best is None:
        choice = choose_model(table, sweep, robust=robust)
        found = answer(table, sweep, frontier(table.models, sweep.objectives), choice)
        if choice.row is not None and found.model is not None:
            reason = render_line("answer.reason", answer=found) or render_line("answer.closest", answer=found)
            lines = model_lines(choice.criterion, choice.verdicts, found.forget_answers)
            lines += () if robust else render_lines("answer.attacks", answer=found)
            return JudgedPick(choice.row, choice.eligible, reason, str(choice.outcome), lines)
        if robust:
            folder = next(iter(table.trials["folder"]), "DIR")
            command = f"python -m sweeper attack {shlex.quote(folder)}"
            raise NothingQualifies(f"no model has the results of all attacks; measure them first with {command}")
    picked = pick(table, sweep, rule=rule or KNEE, limits=limits, best=best)
    return judged_model(picked.row, table, sweep, render_line("pick.reason", pick=picked), eligible=picked.eligible)


def judged_model(row: pd.Series, table: TrialTable, sweep: SweepFile, reason: str, *, eligible: int = 1) -> JudgedPick:
    """Compare one model with the criterion of its sweep."""
    criterion = criterion_of(sweep, table)
    alone = choose(row.to_frame().T.infer_objects(), criterion, sweep.objectives)
    lines = model_lines(criterion, criterion.verdicts(row), forget_answers(row, criterion))
    return JudgedPick(row, eligible, reason, str(alone.outcome), lines)
