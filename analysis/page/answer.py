"""The answer of a sweep: which checkpoint to take, why, and what it scores against the model before unlearning."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frontier.frontier import Frontier, Recommendation, frontier, recommend
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import STATUSES, TrialTable, numbers
from analysis.words import counted, number, settings_in_words


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
    sentences = list(_reasons(own, recommended, sweep, table))
    best = recommend(front)
    if best is not None and best.distance < recommended.distance:
        foreign = front.members.iloc[best.nearest]
        sentences.append(
            f"{foreign['trial_id']} ({foreign['method']}), a row of a table from elsewhere, is nearer to the ideal "
            f"corner (distance {best.distance:.3f}), but there is no checkpoint of it to take."
        )
    roles: dict[str, list[str]] = {}
    for place, role in ((recommended.nearest, "nearest to ideal"), (recommended.largest, "largest contribution")):
        roles.setdefault(own.trial_ids[place], []).append(role)
    return Answer(
        headline=f"Take trial {row['trial_id']}: {settings_in_words(row, table.varying)}.",
        sentences=tuple(sentences),
        trial_id=str(row["trial_id"]),
        checkpoint=str(row["checkpoint"]),
        metrics=tuple(_metric_lines(own.members.iloc[[recommended.nearest]], sweep)),
        members=tuple(_members(front, roles, sweep, table.varying)),
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
    chosen = front.values[recommended.nearest].tolist()
    moves, gained = [], False
    for objective, value in zip(front.objectives, chosen, strict=True):
        before = sweep.baseline.get(objective.column)
        gained |= before is None or float(objective.oriented(value)) < float(objective.oriented(before))
        better = "higher" if objective.direction == "max" else "lower"
        start = f"from {number(before)} to " if before is not None else ""
        moves.append(f"{objective.label.partition(' (')[0]} {start}{number(value)} ({better} is better)")
    against = any(item.column in sweep.baseline for item in front.objectives)
    yield f"{'Against the model before unlearning' if against else 'It scores'}: {'; '.join(moves)}."
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
        yield (
            f"Trial {front.trial_ids[recommended.largest]} adds most to the hypervolume "
            f"({front.contributions[recommended.largest]:.3f}): take it, or another point of the frontier, if one "
            "objective matters more to you than the other."
        )
    verdicts = [sweep.columns.success(row.get, sweep.baseline) for _, row in front.members.iterrows()]
    if verdicts[recommended.nearest] is False:
        passing = [i for i, verdict in enumerate(verdicts) if verdict]
        other = min(passing, key=lambda i: float(np.linalg.norm(front.costs[i])), default=None)
        yield "It misses a threshold of the paper (below)" + (
            f"; trial {front.trial_ids[other]}, also on the frontier, meets them all."
            if other is not None
            else ", and no trial on the frontier is known to meet them all."
        )
    if not gained:
        yield "Beware: the model before unlearning scores at least as well in every objective. Nothing was gained."


def _metric_lines(chosen: pd.DataFrame, sweep: SweepFile) -> Iterator[MetricLine]:
    """The objectives, then what the model before unlearning was scored by or, beyond that, the one trial ``chosen``."""
    columns = sweep.columns
    labels = {name: columns.axis(name) for name in (*sweep.baseline, *columns.losses, *columns.metrics)}
    own = {objective.column: objective.label for objective in sweep.objectives}
    for name, label in (own | {name: label for name, label in labels.items() if name not in own}).items():
        before, after = sweep.baseline.get(name), float(numbers(chosen, name).iloc[0])
        threshold = columns[name].threshold
        if name not in chosen or (before is None and not math.isfinite(after)):
            continue
        # What tells a loss from another one on the same set.
        twins = [other for other in columns.entries if columns.is_loss(other) and columns[other].of == columns[name].of]
        cap = ", uncapped" if name in twins[:1] else ", at most a random guess"
        yield MetricLine(
            label=label + (cap if name in twins and len(twins) > 1 else ""),
            before=number(before),
            after=number(after),
            criterion=threshold.words() if threshold else "",
            met=threshold.met(after, before) if threshold else None,
        )


def _members(
    front: Frontier, roles: Mapping[str, Sequence[str]], sweep: SweepFile, varying: Sequence[str]
) -> Iterator[Member]:
    for i, (_, row) in enumerate(front.members.iterrows()):
        yield Member(
            trial_id=str(row["trial_id"]),
            settings=settings_in_words(row, varying),
            values=tuple(number(value) for value in front.values[i].tolist()),
            contribution=number(float(front.contributions[i])),
            meets_criteria=sweep.columns.success(row.get, sweep.baseline),
            checkpoint=str(row["checkpoint"]),
            roles=tuple(roles.get(str(row["trial_id"]), ())),
        )
