"""The answer of a sweep: which checkpoint to take, why, and what it scores against the model before unlearning.

It judges before it recommends, by all finished trials and not by the frontier of the objectives alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.frontier import Frontier, frontier, recommend
from analysis.frontier.judgement import Judgement, Outcome
from analysis.frontier.judgement_words import advice, headline, judged_by, selected_by
from analysis.frontier.model_choice import ModelChoice, choose_model
from analysis.frontier.selection import Selection
from analysis.frontier.thresholds import NEAR_GUESS, Thresholds
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Objective, costs_of, values_of
from analysis.tables.trial_table import STATUSES, TrialTable, numbers
from analysis.words import counted, known, model_name, number, settings_in_words
from search_spaces.constraint import all_met


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric before and after. ``met`` is the verdict on ``criterion``, None where there is none."""

    label: str
    before: str
    after: str
    criterion: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Member:
    """A model on the frontier; ``values`` are its objectives, ``roles`` why it stands out.

    ``epoch`` is empty where only the end of a trial counts; ``measured`` says that more than its losses are known;
    ``collapsed`` that a loss to be kept small is near that of a random guess or above it.
    """

    trial_id: str
    epoch: str
    settings: str
    values: tuple[str, ...]
    contribution: str
    meets_criteria: bool | None
    checkpoint: str
    roles: tuple[str, ...]
    measured: bool
    collapsed: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What to take, or why nothing.

    Attributes:
        headline: the answer in a sentence.
        trial_id, epoch, checkpoint: what to take or, where nothing is ``recommended``, what comes closest; may lack.
        advice: which knob to turn where nothing is good.
        judged: what the trial named meets and misses, what could not be judged, and why it was selected, in sentences.
        outcome: what the trials come to, an :class:`Outcome`; empty where none can be judged or compared.
        thresholds: by whose they were judged, in a sentence.
        selection: how the model was selected among those that are acceptable; None if none is.
        reason: the same in a sentence.
    """

    headline: str
    sentences: tuple[str, ...]
    trial_id: str
    checkpoint: str
    metrics: tuple[MetricLine, ...]
    members: tuple[Member, ...]
    advice: str = ""
    judged: tuple[str, ...] = ()
    outcome: str = ""
    recommended: bool = False
    thresholds: str = ""
    epoch: float | None = None
    selection: Selection | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, object]:
        """The entry ``answer`` of pareto.json, from which console and MLflow have it."""
        names = (
            "headline",
            "outcome",
            "recommended",
            "trial_id",
            "epoch",
            "checkpoint",
            "advice",
            "judged",
            "thresholds",
        )
        return {name: getattr(self, name) for name in names} | {
            "selection": None if self.selection is None else self.selection.to_dict() | {"reason": self.reason}
        }


def answer(table: TrialTable, sweep: SweepFile, front: Frontier, choice: ModelChoice | None = None) -> Answer:
    """The answer of a sweep, from its ``choice``; a row from elsewhere has no checkpoint here and is only mentioned."""
    every = table.own.every_epoch
    choice = choice or choose_model(table, sweep)
    rows, thresholds, judgement = choice.rows, choice.thresholds, choice.judgement
    own = frontier(table.own.models, sweep.objectives)
    if judgement.place is None or not sweep.objectives:
        why, members = _nothing(table, sweep), _members(front, {}, sweep, table, thresholds)
        return Answer(why, tuple(_after_divergence(table)), "", "", (), tuple(members))
    row = rows.iloc[judgement.place]
    knobs = advice(judgement, rows, thresholds, diverged=table.own.with_status("diverged"))
    noun = "epoch" if every else "trial"
    name, settings = model_name(row, with_epoch=every), settings_in_words(row, table.varying)
    selection = judgement.selection
    reason = "" if selection is None else selected_by(selection, judgement.outcome, noun)
    judged = (*judged_by(judgement, row, thresholds), *filter(None, [reason]))
    return Answer(
        headline=headline(judgement, rows, thresholds, take=f"Take {name}: {settings}.", noun=noun),
        sentences=(
            *([] if judgement.recommended else [knobs, f"Closest is {name}: {settings}."]),
            _moves(row, sweep),
            *judged,
            *_place_on(own, row, table),
            *_elsewhere(front, row, sweep.objectives),
            *_beware(row, sweep),
            *_other_seeds(row, table, thresholds),
        ),
        trial_id=str(row["trial_id"]),
        epoch=float(row["epoch"]) if every else None,
        checkpoint=str(row["checkpoint"]),
        metrics=tuple(_metric_lines(rows.iloc[[judgement.place]], sweep, thresholds)),
        members=tuple(_members(front, _roles(own, judgement, row), sweep, table, thresholds)),
        advice=knobs,
        judged=judged,
        outcome=str(judgement.outcome),
        recommended=judgement.recommended,
        thresholds=_whose(thresholds),
        selection=selection,
        reason=reason,
    )


def _nothing(table: TrialTable, sweep: SweepFile) -> str:
    if not sweep.objectives:
        return "Nothing to take yet: the sweep is still making its target model."
    statuses = table.own.trials["status"]
    if statuses.empty:
        return "Nothing to take yet: no trial has ended."
    counts = [(status, int((statuses == status).sum())) for status in STATUSES]
    ended = ", ".join(f"{count} {status}" for status, count in counts if count)
    return f"Nothing to take: no trial finished with a value of every objective ({ended})."


def _after_divergence(table: TrialTable) -> Iterator[str]:
    statuses = table.own.trials["status"]
    if len(statuses) and not (statuses == "finished").any() and (statuses == "diverged").any():
        yield "Where every trial diverges the learning rate is too high: try a lower one (--lr)."


def _moves(row: pd.Series, sweep: SweepFile) -> str:
    """What the trial's objectives were before and are now."""
    moves, baseline = [], sweep.baseline_of(row)
    for objective in sweep.objectives:
        before = baseline.get(objective.column)
        better = "higher" if objective.direction == "max" else "lower"
        start = f"from {number(before)} to " if before is not None else ""
        value = number(float(row[objective.column]))
        moves.append(f"{objective.label.partition(' (')[0]} {start}{value} ({better} is better)")
    against = any(item.column in baseline for item in sweep.objectives)
    return f"{'Against the model before unlearning' if against else 'It scores'}: {'; '.join(moves)}."


def _place_on(front: Frontier, row: pd.Series, table: TrialTable) -> Iterator[str]:
    """Where the model stands among the others, and which of them adds most."""
    best, count = recommend(front), len(front.members)
    if best is None:
        return
    every = table.own.every_epoch
    what = "epoch" if every else "trial"
    models = (
        f"{counted(len(table.own.models.trials), 'epoch')} evaluated"
        if every
        else (f"{counted(len(table.own.finished), 'trial')} finished")
    )
    knee, largest = front.members.iloc[best.nearest], front.members.iloc[best.largest]
    name, knee_name, largest_name = (model_name(item, with_epoch=every) for item in (row, knee, largest))
    alone = " of these trials alone" if len(table.own.trials) < len(table.trials) else ""
    if count == 1 and knee_name == name:
        yield f"{models}; this one is at least as good as any other in every objective."
        return
    near = (
        f"nearest to the ideal corner (distance {best.distance:.3f}, with each objective scaled to 0 at its best bound "
        "and 1 at its worst)"
    )
    which = "this one is" if knee_name == name else f"{knee_name} is"
    named = [model_name(item, with_epoch=every) for _, item in front.members.iterrows()]
    aside = "" if name in named else f"; {name} is not among them"
    yield (
        f"{models}, {count} of them on the frontier{alone}: no other {what} is better than one of these "
        f"in some objective without being worse in another. Of these, {which} {near}{aside}."
    )
    if largest_name not in (name, knee_name):
        yield (
            f"{largest_name[0].upper()}{largest_name[1:]} adds most to the hypervolume "
            f"({front.contributions[best.largest]:.3f}): take it, or another point of the frontier, if one objective "
            "matters more to you than the other."
        )


def _elsewhere(front: Frontier, row: pd.Series, objectives: Sequence[Objective]) -> Iterator[str]:
    best = recommend(front)
    own = float(np.linalg.norm(costs_of(values_of(row.to_frame().T.infer_objects(), objectives), objectives)))
    if best is not None and best.distance < own and front.members.iloc[best.nearest]["elsewhere"]:
        foreign = front.members.iloc[best.nearest]
        yield (
            f"{foreign['trial_id']} ({foreign['method']}), a row of a table from elsewhere, is nearer to the ideal "
            f"corner (distance {best.distance:.3f}), but there is no checkpoint of it to take."
        )


def _beware(row: pd.Series, sweep: SweepFile) -> Iterator[str]:
    baseline = sweep.baseline_of(row)
    before = {item: baseline.get(item.column) for item in sweep.objectives}
    if not any(
        value is None or not float(item.oriented(row[item.column])) >= float(item.oriented(value))
        for item, value in before.items()
    ):
        yield "Beware: the model before unlearning scores at least as well in every objective. Nothing was gained."


def _other_seeds(row: pd.Series, table: TrialTable, thresholds: Thresholds) -> Iterator[str]:
    """How the settings of a trial fare on the other seeds that they were run with, where not as well."""
    if table.own.every_epoch or not thresholds.good(row):
        return
    same = table.own.finished
    for name in table.own.varying:
        if name not in ("seed", "target_key"):
            same = same[(same[name] == row[name]) | (same[name].isna() & pd.isna(row[name]))]
    good = [thresholds.good(other) for _, other in same.iterrows()]
    if not all(good):
        yield f"The same settings meet the thresholds on {sum(good)} of {len(good)} seeds."


def _whose(thresholds: Thresholds) -> str:
    papers = [str(item) for item in thresholds.all if item not in thresholds.stated]
    of_paper = f"those of arXiv:2410.22086 ({', '.join(papers)})" if papers else ""
    stated = f"stated (--constraint {', '.join(map(str, thresholds.stated))})" if thresholds.stated else ""
    said = " and ".join(filter(None, (stated, of_paper)))
    return f"The thresholds are {said}." if said else ""


def _roles(front: Frontier, judgement: Judgement, row: pd.Series) -> dict[str, list[str]]:
    best = recommend(front)
    roles: dict[str, list[str]] = {}
    if judgement.outcome is Outcome.GOOD:
        roles[model_name(row, with_epoch=True)] = ["good trade-off"]
    for place, role in ((best.nearest, "nearest to ideal"), (best.largest, "largest contribution")) if best else ():
        roles.setdefault(model_name(front.members.iloc[place], with_epoch=True), []).append(role)
    return roles


def _metric_lines(chosen: pd.DataFrame, sweep: SweepFile, thresholds: Thresholds) -> Iterator[MetricLine]:
    """The objectives, then what the model before unlearning was scored by or, beyond that, the one trial ``chosen``."""
    columns, baseline = sweep.columns, sweep.baseline_of(chosen.iloc[0])
    labels = {name: columns.axis(name) for name in (*baseline, *columns.losses, *columns.metrics)}
    own = {objective.column: objective.label for objective in sweep.objectives}
    for name, label in (own | {name: label for name, label in labels.items() if name not in own}).items():
        before, after = baseline.get(name), float(numbers(chosen, name).iloc[0])
        asked = thresholds.of(name)
        verdicts = [item.met(after, before) for item in asked]
        if name not in chosen or (before is None and not math.isfinite(after)):
            continue
        # What tells a loss from another one on the same set.
        twins = [other for other in columns.entries if columns.is_loss(other) and columns[other].of == columns[name].of]
        cap = ", uncapped" if name in twins[:1] else ", at most a random guess"
        yield MetricLine(
            label=label + (cap if name in twins and len(twins) > 1 else ""),
            before=number(before),
            after=number(after),
            criterion=", ".join(item.words() for item in asked),
            met=all_met(verdicts),
        )


def _is_collapsed(row: pd.Series, sweep: SweepFile) -> bool:
    """Whether a loss that is to be kept small is near that of a random guess or above it, so that nothing is kept."""
    guess = sweep.random_guess_loss
    kept = [item.column for item in sweep.objectives if item.direction == "min" and sweep.columns.is_loss(item.column)]
    return guess is not None and any(float(row[name]) >= NEAR_GUESS * guess for name in kept)


def _members(
    front: Frontier,
    roles: Mapping[str, Sequence[str]],
    sweep: SweepFile,
    table: TrialTable,
    thresholds: Thresholds,
) -> Iterator[Member]:
    for i, (_, row) in enumerate(front.members.iterrows()):
        yield Member(
            trial_id=str(row["trial_id"]),
            epoch=number(float(row["epoch"])) if table.every_epoch else "",
            settings=settings_in_words(row, table.varying),
            values=tuple(number(value) for value in front.values[i].tolist()),
            contribution=number(float(front.contributions[i])),
            meets_criteria=thresholds.met(row),
            checkpoint=str(row["checkpoint"]),
            roles=tuple(roles.get(model_name(row, with_epoch=True), ())),
            measured=any(known(row.get(name)) is not None for name in sweep.columns.metrics),
            collapsed=_is_collapsed(row, sweep),
        )
