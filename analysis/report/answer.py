"""The answer of a sweep: the recommended model, the reason for the choice, and the model's scores.

A model is recommended only if it meets the criterion (:mod:`analysis.frontier.criterion`). Otherwise, the answer names
the closest model. The candidates include finished trials that are not on the frontier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import pandas as pd

from analysis.frontier.choice import Choice, Outcome
from analysis.frontier.correction import Interval
from analysis.frontier.criterion import Criterion, Verdict
from analysis.frontier.frontier import Frontier, Model, frontier
from analysis.frontier.robust import Survival, attacked_rows, survival
from analysis.frontier.tried import Tried, tried_settings
from analysis.report.members import Member, frontier_members, member_roles
from analysis.report.outcomes import status_counts
from analysis.report.render import render_line, render_lines
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell


@dataclass(frozen=True, slots=True)
class Score:
    """One score of a model.

    Attributes:
        before, after: the values of the target and of the model; None if not measured.
        never_saw: the value of a model that never saw the forget set; None if there is no such model.
        corrected: the value corrected for the choice of the model, with its interval; None if it is not known.
        verdict: the comparison with the criterion's requirement; None without a requirement.
    """

    column: str
    label: str
    before: float | None
    after: float | None
    never_saw: float | None = None
    corrected: Interval | None = None
    direction: str = ""
    verdict: Verdict | None = None

    @property
    def met(self) -> bool | None:
        return self.verdict.met if self.verdict else None

    def to_dict(self) -> dict[str, object]:
        item = self.corrected
        interval = {"corrected": item.corrected, "low": item.low, "high": item.high} if item else {}
        empty = dict.fromkeys(("corrected", "low", "high"))
        return {"value": self.after, **empty, **interval, "target": self.before, "never_saw": self.never_saw}


@dataclass(frozen=True, eq=False)
class Answer:
    """The recommended model, or the reason why no model is recommended.

    Attributes:
        noun: the word for a model in sentences: ``epoch`` if all epochs can be selected, otherwise ``trial``.
        statuses: the number of trials for each status that occurs.
        has_target: whether the target has been prepared.
        members: the models on the frontier.
        measured: the number of judged epochs and of all evaluated epochs; of trials if ``noun`` is ``trial``.
        model: the chosen model; None if there is none. The fields below describe this model.
        objectives: the model's scores in the objectives of the sweep.
        scores: all scores that were measured on the model or on the target.
        ties: the other models that cannot be told apart from the model.
        forget_answers: the number of forget questions by kind of answer: ``fluent``, ``refusal`` and ``loops``.
        on_front: whether the model is on the frontier.
        survival: how the model stands after the attacks; None if no attack is measured on it.
        no_gain: whether the target is at least as good as the model in every objective.
        seeds: the number of good trials and the number of finished trials, counting all trials that differ from the
            model's trial only in the seed. None if all these trials are good, if the model is not good, or if epochs
            are compared.
    """

    noun: str
    statuses: Mapping[str, int]
    has_target: bool
    choice: Choice
    members: tuple[Member, ...]
    tried: Tried
    measured: tuple[int, int]
    model: Model | None = None
    objectives: tuple[Score, ...] = ()
    scores: tuple[Score, ...] = ()
    ties: tuple[Model, ...] = ()
    forget_answers: Mapping[str, int] | None = None
    on_front: bool = False
    no_gain: bool = False
    survival: Survival | None = None
    seeds: tuple[int, int] | None = None

    @property
    def recommended(self) -> bool:
        return self.model is not None and self.choice.recommended

    @property
    def criterion(self) -> Criterion:
        return self.choice.criterion

    @cached_property
    def headline(self) -> str:
        """The answer of the sweep in one sentence."""
        return render_line("answer.headline", answer=self)

    @cached_property
    def recommendation(self) -> str:
        """The beginning of the headline, which names the model to take; "" if no model is recommended."""
        return render_line("answer.recommendation", answer=self)

    @cached_property
    def advice(self) -> str:
        """The advice on which options to change; "" if a model is recommended."""
        return render_line("answer.advice", answer=self)

    @cached_property
    def judgement_lines(self) -> tuple[str, ...]:
        """Sentences that compare the model with the criterion, and say why it was chosen."""
        lines = model_lines(self.criterion, self.choice.verdicts, self.forget_answers) if self.model else ()
        further = (render_lines(f"answer.{part}", answer=self) for part in ("attacks", "corrected", "reason"))
        return (*lines, *(line for part in further for line in part))

    def to_dict(self) -> dict[str, object]:
        """Return the entry ``answer`` of pareto.json. The console and MLflow read this entry."""
        model = self.model
        return {
            "headline": self.headline,
            "criterion": self.criterion.name,
            "outcome": str(self.choice.outcome if model else Outcome.NONE),
            "recommended": self.recommended,
            "trial_id": model.trial_id if model else "",
            "epoch": model.epoch if model else None,
            "checkpoint": model.checkpoint if model else "",
            "confirmed": self.choice.confirmed.to_dict() if self.choice.confirmed else None,
            "scores": {item.column: item.to_dict() for item in self.scores},
            "ties": [{"trial_id": item.trial_id, "epoch": item.epoch} for item in self.ties],
            "forget_answers": self.forget_answers,
            "attacked": self.survival.to_dict() if self.survival else None,
            "measured": dict(zip(("epochs", "of"), self.measured, strict=True)),
            "decided": {"by": self.choice.decision, "eligible": self.choice.eligible, "lacking": self.choice.lacking},
            "advice": self.advice,
            "judged": self.judgement_lines,
            "thresholds": render_line("answer.thresholds", criterion=self.criterion),
        }


def answer(
    table: TrialTable,
    sweep: SweepFile,
    front: Frontier,
    choice: Choice,
    corrected: Mapping[str, Interval] = MappingProxyType({}),
) -> Answer:
    """Return the recommended model of a sweep, with the reason.

    Models of external tables are not recommended, even if they are on the frontier.

    Args:
        corrected: the model's corrected scores; empty if they are not needed.
    """
    own_table, criterion = table.without_external, choice.criterion
    own_front = frontier(own_table.models, sweep.objectives)
    row = choice.row if sweep.objectives else None
    roles = {} if row is None else member_roles(own_front, choice, row, table)
    candidates = own_table.models.trials if own_table.every_epoch else own_table.finished
    is_judged = criterion.judge(candidates).known
    if choice.is_of_attacked:
        is_judged &= attacked_rows(candidates, criterion)
    result = Answer(
        noun="epoch" if own_table.every_epoch else "trial",
        statuses={status: count for status, count in status_counts(own_table).items() if count},
        has_target=bool(sweep.objectives),
        choice=choice,
        members=frontier_members(front, roles, sweep, table, criterion),
        tried=tried_settings(choice, own_table.with_status("diverged")),
        measured=(int(is_judged.sum()), len(candidates)),
    )
    if row is None:
        return result
    scores = tuple(replace(item, corrected=corrected.get(item.column)) for item in _scores(row, sweep, choice))
    values = {item.column: item for item in scores}
    objectives = tuple(
        replace(values[item.column], label=item.label.partition(" (")[0], direction=item.direction)
        for item in sweep.objectives
        if item.column in values
    )
    return replace(
        result,
        model=Model.of(row, table),
        objectives=objectives,
        scores=scores,
        ties=tuple(Model.of(choice.rows.iloc[i], table) for i in choice.ties),
        forget_answers=forget_answers(row, criterion),
        on_front=bool(row.name in own_front.members.index),
        survival=survival(row, criterion),
        no_gain=bool(objectives) and all(_has_no_gain(score) for score in objectives),
        seeds=_seeds(row, own_table, criterion),
    )


def model_lines(
    criterion: Criterion, verdicts: Sequence[Verdict], answers: Mapping[str, int] | None
) -> tuple[str, ...]:
    """Return sentences that compare one model with the criterion, and say how it answers forget questions."""
    return render_lines("answer.model_lines", criterion=criterion, verdicts=verdicts, answers=answers)


def forget_answers(row: pd.Series, criterion: Criterion) -> dict[str, int] | None:
    """Return the number of forget questions that a model answers in each way; None if it is not known."""
    (target,) = criterion.targets_of(row.to_frame().T)
    counts = {}
    for name, column in criterion.columns.entries.items():
        if (column.usable or {}).get("kind"):
            share, items = finite_cell(row, name), target.items.get(name)
            if share is None or items is None:
                return None
            counts[str(column.usable["kind"])] = round(share * items)  # type: ignore[index]
    return counts or None


def _has_no_gain(score: Score) -> bool:
    """Return whether the target is at least as good as the model; False if one of them was not measured."""
    if score.before is None or score.after is None:
        return False
    return score.after <= score.before if score.direction == "max" else score.after >= score.before


def _seeds(row: pd.Series, own_table: TrialTable, criterion: Criterion) -> tuple[int, int] | None:
    """Return the value of :attr:`Answer.seeds` for the model in ``row``."""
    if own_table.every_epoch or not criterion.is_good(row.to_frame().T.infer_objects()).all():
        return None
    repeats = own_table.finished
    for name in own_table.varying:
        if name not in ("seed", "target_key"):
            is_same = (repeats[name] == row[name]) | (repeats[name].isna() & pd.isna(row[name]))
            repeats = repeats[is_same]
    good = criterion.is_good(repeats)
    return None if good.all() else (int(good.sum()), len(good))


def _scores(row: pd.Series, sweep: SweepFile, choice: Choice) -> Iterator[Score]:
    columns = sweep.columns
    (target,) = choice.criterion.targets_of(row.to_frame().T)
    verdicts = {item.requirement.column: item for item in reversed(choice.verdicts)}
    labels = {item.column: item.label for item in sweep.objectives}
    for name in (*target.values, *columns.losses, *columns.metrics):
        labels.setdefault(name, columns.axis(name))
    for name, label in labels.items():
        before, after = target.values.get(name), finite_cell(row, name)
        if name not in row or (after is None and (before is None or columns[name].attack)):
            continue
        # If a data set has two losses, only one is capped. The labels must say which.
        losses = [item for item in columns.entries if columns.is_loss(item) and columns[item].of == columns[name].of]
        suffix = ""
        if name in losses and len(losses) > 1:
            suffix = ", uncapped" if name == losses[0] else ", capped at a random guess"
        yield Score(
            column=name,
            label=label + suffix,
            before=before,
            after=after,
            never_saw=target.never_saw.get(name),
            verdict=verdicts.get(name),
        )
