"""What ``pick`` takes, and how it is judged: without a rule it is the report's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.frontier.frontier import frontier, takeable
from analysis.frontier.judgement import judge
from analysis.frontier.judgement_words import judged_by
from analysis.frontier.pick import KNEE, Best, Pick, pick
from analysis.frontier.thresholds import thresholds_of
from analysis.report.answer import Answer, answer
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import counted
from search_spaces.constraint import Constraint


@dataclass(frozen=True, slots=True)
class ChoiceJudged:
    """How the trial taken stands: ``recommended`` whether it is a good one, ``outcome`` what the sweep came to.

    ``lines`` say it in sentences, with which knob to turn where nothing in the sweep is good.
    """

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
) -> tuple[Pick, ChoiceJudged]:
    """The trial of a rule or, without one, the report's answer.

    Raises:
        AnalysisError: as :func:`analysis.frontier.pick.pick`.
    """
    given = answer(table, sweep, frontier(table.models, sweep.objectives))
    if rule is None and best is None and given.trial_id:
        found = _answered(table, sweep, given)
    else:
        found = pick(table, sweep, rule=rule or KNEE, limits=limits, best=best)
    thresholds = thresholds_of(sweep)
    alone = judge(found.row.to_frame().T.infer_objects(), thresholds, sweep.columns, sweep.objectives)
    lines = tuple(judged_by(alone, found.row, thresholds))
    if not given.recommended and given.outcome:
        lines = (given.headline, given.advice, *lines)
    return found, ChoiceJudged(alone.recommended, given.outcome, lines)


def _answered(table: TrialTable, sweep: SweepFile, given: Answer) -> Pick:
    """The answer's model, with the reason why the answer selected it."""
    models = takeable(table.own, sweep.objectives).trials
    named = models["trial_id"] == given.trial_id
    row = models[named if given.epoch is None else named & (models["epoch"] == given.epoch)].iloc[0]
    count = counted(len(models), "epoch" if table.own.every_epoch else "finished trial")
    return Pick(row, len(models), given.reason or f"closest to the thresholds (of {count})")
