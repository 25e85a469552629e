"""The answer of a sweep: which checkpoint to take, why, and what it scores against the model before unlearning."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.frontier import Frontier, Recommendation, frontier, recommend
from analysis.tables.columns import Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import STATUSES, TrialTable, numbers
from analysis.words import counted, number, settings_in_words

_AGAINST = "Against the model before unlearning"


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
    """A trial on the frontier; ``values`` are its objectives, ``roles`` why it stands out."""

    trial_id: str
    settings: str
    values: tuple[str, ...]
    contribution: str
    meets_criteria: bool | None
    checkpoint: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """``headline`` answers in a sentence; ``trial_id`` and ``checkpoint`` are empty when there is nothing to take."""

    headline: str
    sentences: tuple[str, ...]
    trial_id: str
    checkpoint: str
    metrics: tuple[MetricLine, ...]
    members: tuple[Member, ...]


def answer(table: TrialTable, sweep: SweepFile, front: Frontier) -> Answer:
    """What to take from the trials of a sweep; a row from elsewhere has no checkpoint here and is only mentioned."""
    own = frontier(table.own, sweep.objectives)
    recommended = recommend(own)
    if recommended is None:
        return Answer(_nothing(table, sweep), (), "", "", (), tuple(_members(front, {}, sweep, table.varying)))
    row = own.members.iloc[recommended.nearest]
    return Answer(
        headline=f"Take trial {row['trial_id']}: {settings_in_words(row, table.varying)}.",
        sentences=(*_reasons(own, recommended, sweep, table), *_elsewhere(front, recommended)),
        trial_id=str(row["trial_id"]),
        checkpoint=str(row["checkpoint"]),
        metrics=tuple(_metric_lines(own.members.iloc[[recommended.nearest]], sweep)),
        members=tuple(_members(front, _roles(own, recommended), sweep, table.varying)),
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


def _reasons(front: Frontier, recommended: Recommendation, sweep: SweepFile, table: TrialTable) -> Iterator[str]:
    baseline = sweep.baseline_objectives()
    moves = []
    for objective, value in zip(front.objectives, front.values[recommended.nearest].tolist(), strict=True):
        before = baseline[objective.name]
        name = objective.label.partition(" (")[0]
        better = "higher" if objective.direction == "max" else "lower"
        start = f"from {number(before)} to " if before is not None else ""
        moves.append(f"{name} {start}{number(value)} ({better} is better)")
    against = "It scores" if all(before is None for before in baseline.values()) else _AGAINST
    yield f"{against}: {'; '.join(moves)}."
    count = len(front.members)
    finished = counted(len(table.own.finished), "trial")
    alone = " of these trials alone" if len(table.own.trials) < len(table.trials) else ""
    if count == 1:
        yield f"{finished} finished; this one is at least as good as any other in every objective."
    else:
        yield (
            f"{finished} finished, {count} of them on the frontier{alone}: no other trial is better than one of these "
            "in some objective without being worse in another. Of these, this one is nearest to the ideal corner "
            f"(distance {recommended.distance:.3f}, with each objective scaled to 0 at its best bound and 1 at its "
            "worst)."
        )
    if recommended.largest != recommended.nearest:
        other = front.members.iloc[recommended.largest]["trial_id"]
        yield (
            f"Trial {other} adds most to the hypervolume ({front.contributions[recommended.largest]:.3f}): take it, or "
            "another point of the frontier, if one objective matters more to you than the other."
        )
    yield from _thresholds(front, recommended, sweep)
    if _dominated_by_baseline(front, recommended, sweep):
        yield "Beware: the model before unlearning scores at least as well in every objective. Nothing was gained."


def _elsewhere(front: Frontier, recommended: Recommendation) -> Iterator[str]:
    """The row from elsewhere that is nearer to the ideal corner than the trial to take."""
    best = recommend(front)
    if best is None or best.distance >= recommended.distance:
        return
    row = front.members.iloc[best.nearest]
    yield (
        f"{row['trial_id']} ({row['method']}), a row of a table from elsewhere, is nearer to the ideal corner "
        f"(distance {best.distance:.3f}), but there is no checkpoint of it to take."
    )


def _thresholds(front: Frontier, recommended: Recommendation, sweep: SweepFile) -> Iterator[str]:
    """Who meets the paper's thresholds, where the recommended trial does not."""
    verdicts = [sweep.columns.success(row.get, sweep.baseline) for _, row in front.members.iterrows()]
    if verdicts[recommended.nearest] is not False:
        return
    passing = [i for i, verdict in enumerate(verdicts) if verdict]
    if passing:
        nearest = min(passing, key=lambda i: float(np.linalg.norm(front.costs[i])))
        other = front.trial_ids[nearest]
        yield f"It misses a threshold of the paper (below); trial {other}, also on the frontier, meets them all."
    else:
        yield "It misses a threshold of the paper (below), and no trial on the frontier is known to meet them all."


def _dominated_by_baseline(front: Frontier, recommended: Recommendation, sweep: SweepFile) -> bool:
    before = [sweep.baseline.get(objective.column) for objective in front.objectives]
    after = front.values[recommended.nearest].tolist()
    return all(
        start is not None and float(objective.oriented(start)) <= float(objective.oriented(end))
        for objective, start, end in zip(front.objectives, before, after, strict=True)
    )


def _metric_lines(chosen: pd.DataFrame, sweep: SweepFile) -> Iterator[MetricLine]:
    """The objectives, then what the model before unlearning was scored by or, beyond that, the one trial ``chosen``."""
    labels = {objective.column: objective.label for objective in sweep.objectives}
    for name in (*sweep.baseline, *sweep.columns.losses, *sweep.columns.metrics):
        labels.setdefault(name, sweep.columns.axis(name))
    for name, label in labels.items():
        before, after = sweep.baseline.get(name), float(numbers(chosen, name).iloc[0])
        threshold = sweep.columns[name].threshold
        if name not in chosen or (before is None and not math.isfinite(after)):
            continue
        yield MetricLine(
            label=label + _cap(sweep.columns, name),
            before=number(before),
            after=number(after),
            criterion=threshold.words() if threshold else "",
            met=threshold.met(after, before) if threshold else None,
        )


def _cap(columns: Columns, name: str) -> str:
    """What tells a loss from another one on the same set."""
    twins = [other for other in columns.entries if columns.is_loss(other) and columns[other].of == columns[name].of]
    if not columns.is_loss(name) or len(twins) < 2:
        return ""
    return ", uncapped" if name == twins[0] else ", at most a random guess"


def _roles(own: Frontier, recommended: Recommendation) -> dict[str, tuple[str, ...]]:
    """Why a trial of the own frontier stands out, by its id."""
    nearest, largest = (own.trial_ids[place] for place in (recommended.nearest, recommended.largest))
    if nearest == largest:
        return {nearest: ("nearest to ideal", "largest contribution")}
    return {nearest: ("nearest to ideal",), largest: ("largest contribution",)}


def _members(
    front: Frontier, roles: Mapping[str, tuple[str, ...]], sweep: SweepFile, varying: Sequence[str]
) -> Iterator[Member]:
    for i, (_, row) in enumerate(front.members.iterrows()):
        yield Member(
            trial_id=str(row["trial_id"]),
            settings=settings_in_words(row, varying),
            values=tuple(number(value) for value in front.values[i].tolist()),
            contribution=number(float(front.contributions[i])),
            meets_criteria=sweep.columns.success(row.get, sweep.baseline),
            checkpoint=str(row["checkpoint"]),
            roles=roles.get(str(row["trial_id"]), ()),
        )
