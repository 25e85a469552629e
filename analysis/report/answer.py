"""The answer of a sweep: the recommended model, the reason for the choice, and the model's scores.

The selected model is recommended if it is good (see :mod:`analysis.frontier.assessment`), or if no model of the sweep
can be compared with the thresholds. The candidates include finished trials that are not on the frontier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from analysis.frontier.assessment import NEAR_GUESS, Thresholds, assess
from analysis.frontier.confirmation import Confirmed, confirmed
from analysis.frontier.criterion import criterion_of
from analysis.frontier.frontier import Frontier, Model, frontier
from analysis.frontier.judgement import Judgement, ModelChoice, Outcome, TriedSettings, tried_settings
from analysis.report.outcomes import status_counts
from analysis.report.render import render_line, render_lines
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import cell
from search_spaces.constraint import Constraint, all_met


@dataclass(frozen=True, slots=True)
class Score:
    """One score of the target and of the model in an :class:`Answer`.

    ``before`` is the value of the target, and ``after`` the value of the model. A value is None if it was not measured.
    ``met`` is whether the model meets ``thresholds``; None if unknown.
    """

    column: str
    label: str
    before: float | None
    after: float | None
    direction: str = ""
    thresholds: tuple[Constraint, ...] = ()
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A model on the frontier.

    Attributes:
        contribution: the hypervolume that would be lost without the model, in [0, 1].
        met: whether the model meets all thresholds; None if unknown.
        roles: labels such as "nearest to ideal".
        measured: whether a metric other than the losses was measured on the model.
        collapsed: whether a minimized loss is near or above the loss of a random guess.
    """

    model: Model
    values: tuple[float, ...]
    contribution: float
    met: bool | None
    roles: tuple[str, ...]
    measured: bool
    collapsed: bool


@dataclass(frozen=True, eq=False)
class Answer:
    """The recommended model, or the reason why no model is recommended.

    Attributes:
        noun: the word for a model in sentences: ``epoch`` if all epochs can be selected, otherwise ``trial``.
        statuses: the number of trials for each status that occurs.
        has_target: whether the target has been prepared.
        members: the models on the frontier.
        model: the recommended model, otherwise the model closest to the thresholds; None if no model can be compared
            with the thresholds. The fields below describe this model.
        objectives: the model's scores in the objectives of the sweep.
        scores: all scores that were measured on the model or on the target.
        model_count: the number of evaluated epochs or, if ``noun`` is ``trial``, of finished trials.
        on_front: whether the model is on the frontier.
        no_gain: whether the target is at least as good as the model in every objective.
        seeds: the number of good trials and the number of finished trials, counting all trials that differ from the
            model's trial only in the seed. None if all these trials are good, if the model is not good, or if epochs
            are compared.
        confirmed: the results of the model's fresh runs; None if it has none.
    """

    noun: str
    statuses: Mapping[str, int]
    has_target: bool
    judgement: Judgement
    thresholds: Thresholds
    members: tuple[Member, ...]
    tried: TriedSettings
    model: Model | None = None
    objectives: tuple[Score, ...] = ()
    scores: tuple[Score, ...] = ()
    model_count: int = 0
    on_front: bool = False
    no_gain: bool = False
    seeds: tuple[int, int] | None = None
    confirmed: Confirmed | None = None

    @property
    def recommended(self) -> bool:
        return self.model is not None and self.judgement.recommended

    @property
    def outcome(self) -> str:
        """The outcome of the sweep as text; "" if there is no model to judge."""
        return "" if self.model is None else str(self.judgement.outcome)

    @cached_property
    def headline(self) -> str:
        """The answer of the sweep in one sentence."""
        return render_line("answer.headline", answer=self)

    @cached_property
    def advice(self) -> str:
        """The advice on which options to change; "" if a model is recommended."""
        return render_line("answer.advice", answer=self)

    @cached_property
    def reason(self) -> str:
        """Why the model was selected; "" if no model is recommended."""
        return render_line("answer.reason", answer=self)

    @cached_property
    def judgement_lines(self) -> tuple[str, ...]:
        """Sentences that say whether the model meets the thresholds, followed by :attr:`reason`."""
        lines = render_lines("answer.judgement_lines", answer=self)
        return (*lines, self.reason) if self.reason else lines

    def to_dict(self) -> dict[str, object]:
        """Return the entry ``answer`` of pareto.json. The console and MLflow read this entry."""
        model, selection = self.model, self.judgement.selection
        return {
            "headline": self.headline,
            "outcome": self.outcome,
            "recommended": self.recommended,
            "trial_id": model.trial_id if model else "",
            "epoch": model.epoch if model else None,
            "checkpoint": model.checkpoint if model else "",
            "confirmed": self.confirmed.to_dict() if self.confirmed else None,
            "advice": self.advice,
            "judged": self.judgement_lines,
            "thresholds": render_line("answer.thresholds", answer=self),
            "selection": selection.to_dict() | {"reason": self.reason} if model and selection else None,
        }


def answer(table: TrialTable, sweep: SweepFile, front: Frontier, choice: ModelChoice) -> Answer:
    """Return the recommended model of a sweep, with the reason.

    Models of external tables are not recommended, even if they are on the frontier.
    """
    thresholds, judgement = choice.thresholds, choice.judgement
    own_table = table.without_external
    own_front = frontier(own_table.models, sweep.objectives)
    row = choice.row if sweep.objectives else None
    roles = {} if row is None else _roles(own_front, judgement, row, table)
    result = Answer(
        noun="epoch" if own_table.every_epoch else "trial",
        statuses={status: count for status, count in status_counts(own_table).items() if count},
        has_target=bool(sweep.objectives),
        judgement=judgement,
        thresholds=thresholds,
        members=_members(front, roles, sweep, table, thresholds),
        tried=tried_settings(choice.rows, own_table.with_status("diverged")),
    )
    if row is None:
        return result
    baseline = sweep.baseline_of(row)
    fresh = confirmed(row, table.fresh, criterion_of(sweep))
    objectives = tuple(
        Score(
            column=item.column,
            label=item.label.partition(" (")[0],
            before=baseline.get(item.column),
            after=finite_cell(row, item.column),
            direction=item.direction,
        )
        for item in sweep.objectives
    )
    return replace(
        result,
        model=Model.of(row, table),
        objectives=objectives,
        scores=tuple(_scores(row, sweep, thresholds)),
        model_count=len(own_table.models.trials if own_table.every_epoch else own_table.finished),
        on_front=bool(row.name in own_front.members.index),
        no_gain=all(_has_no_gain(score) for score in objectives),
        seeds=_seeds(row, own_table, thresholds),
        confirmed=fresh if fresh.runs else None,
    )


def _has_no_gain(score: Score) -> bool:
    """Return whether the target is at least as good as the model; False if one of them was not measured."""
    if score.before is None or score.after is None:
        return False
    return score.after <= score.before if score.direction == "max" else score.after >= score.before


def _seeds(row: pd.Series, own_table: TrialTable, thresholds: Thresholds) -> tuple[int, int] | None:
    """Return the value of :attr:`Answer.seeds` for the model in ``row``."""
    if own_table.every_epoch or not assess(row, thresholds).is_good:
        return None
    repeats = own_table.finished
    for name in own_table.varying:
        if name not in ("seed", "target_key"):
            is_same = (repeats[name] == row[name]) | (repeats[name].isna() & pd.isna(row[name]))
            repeats = repeats[is_same]
    good = [assess(other, thresholds).is_good for _, other in repeats.iterrows()]
    return None if all(good) else (sum(good), len(good))


def _roles(front: Frontier, judgement: Judgement, row: pd.Series, table: TrialTable) -> dict[Model, list[str]]:
    roles: dict[Model, list[str]] = {}
    if judgement.outcome is Outcome.GOOD:
        roles[Model.of(row, table)] = ["good trade-off"]
    if len(front.members):
        positions = {"nearest to ideal": front.distances.argmin(), "largest contribution": front.contributions.argmax()}
        for role, index in positions.items():
            roles.setdefault(Model.of(front.members.iloc[int(index)], table), []).append(role)
    return roles


def _scores(row: pd.Series, sweep: SweepFile, thresholds: Thresholds) -> Iterator[Score]:
    columns, baseline = sweep.columns, sweep.baseline_of(row)
    labels = {item.column: item.label for item in sweep.objectives}
    for name in (*baseline, *columns.losses, *columns.metrics):
        labels.setdefault(name, columns.axis(name))
    for name, label in labels.items():
        before, after = baseline.get(name), finite_cell(row, name)
        if name not in row or (before is None and after is None):
            continue
        # If a data set has two losses, only one is capped. The labels must say which.
        losses = [item for item in columns.entries if columns.is_loss(item) and columns[item].of == columns[name].of]
        suffix = ""
        if name in losses and len(losses) > 1:
            suffix = ", uncapped" if name == losses[0] else ", capped at a random guess"
        limits = thresholds.of(name)
        yield Score(
            column=name,
            label=label + suffix,
            before=before,
            after=after,
            thresholds=limits,
            met=all_met(item.met(after, before) for item in limits),
        )


def _members(
    front: Frontier, roles: Mapping[Model, Sequence[str]], sweep: SweepFile, table: TrialTable, thresholds: Thresholds
) -> tuple[Member, ...]:
    guess = sweep.random_guess_loss
    minimized = [item.column for item in sweep.objectives if item.direction == "min"]
    losses = [name for name in minimized if sweep.columns.is_loss(name)]
    return tuple(
        Member(
            model=Model.of(row, table),
            values=tuple(front.values[index].tolist()),
            contribution=float(front.contributions[index]),
            met=assess(row, thresholds).met,
            roles=tuple(roles.get(Model.of(row, table), ())),
            measured=any(cell(row.get(name)) is not None for name in sweep.columns.metrics),
            collapsed=guess is not None and any(float(row[name]) >= NEAR_GUESS * guess for name in losses),
        )
        for index, (_, row) in enumerate(front.members.iterrows())
    )
