"""How the trials ended and what they cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.tables.trial_table import STATUSES, TrialTable, numbers
from analysis.words import duration


@dataclass(frozen=True, slots=True)
class Failure:
    """Trials that ended early in the same way for the same reason; ``varied`` says that the numbers in it differ."""

    status: str
    reason: str
    varied: bool
    trial_ids: tuple[str, ...]
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CostLine:
    """A share of the time. ``share`` is in [0, 1]; ``mean`` is the time per trial."""

    name: str
    trials: int
    total: str
    mean: str
    share: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Trial-seconds: the sum over trials of the time each held its worker.

    ``parts`` splits it into training, evaluation and the rest (loading, saving), ``by_status`` and ``by_method`` over
    the trials, without what the first trial of each worker waited for it to start (``starts``, "" for none): that falls
    on whatever method comes first. ``wasted`` is what trials took that did not finish, as a share in [0, 1] and in
    words.
    """

    total: str
    wasted: str
    wasted_share: float
    parts: tuple[CostLine, ...]
    by_status: tuple[CostLine, ...]
    by_method: tuple[CostLine, ...]
    starts: str = ""


def ended_as(table: TrialTable) -> dict[str, int]:
    """Return the number of trials with each of :data:`STATUSES`, zeros included."""
    return {status: int((table.trials["status"] == status).sum()) for status in STATUSES}


def failures(table: TrialTable) -> tuple[Failure, ...]:
    """The trials that failed or diverged, by status and reason, the commonest reason first."""
    unfinished = table.trials[~table.trials["status"].isin(("finished", "stopped"))]
    # "at step 12" and "at step 40" are one reason.
    kinds = unfinished["error"].map(lambda reason: re.sub(r"\d[\d.]*", "#", str(reason)))
    groups = [
        Failure(
            status=str(status),
            reason=str(rows["error"].iloc[0]) or "no reason was recorded",
            varied=rows["error"].nunique() > 1,
            trial_ids=tuple(rows["trial_id"]),
            methods=tuple(sorted(set(rows["method"]))),
        )
        for (status, _), rows in unfinished.groupby([unfinished["status"], kinds])
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.trial_ids), STATUSES.index(group.status), group.reason)))


def stopped_early(table: TrialTable) -> str:
    """How many trials a scheduler ended, after which epochs, and what that saved; "" where it ended none."""
    trials = table.trials
    stopped = trials[trials["status"] == "stopped"]
    if stopped.empty:
        return ""
    done, asked = numbers(stopped, "epochs_done"), numbers(stopped, "epochs")
    places = ", ".join(f"{count} after epoch {epoch:g}" for epoch, count in done.value_counts().sort_index().items())
    told = f"{len(stopped)} of {len(trials)} trials were stopped early"
    saved, whole = float((asked - done).sum()), float(numbers(trials, "epochs").sum())
    return f"{told} ({places}): {saved:g} of {whole:g} epochs were saved." if places and whole > 0 else f"{told}."


def cost(table: TrialTable) -> Cost:
    """What the trials cost. A trial without ``wall_seconds`` counts its training and evaluation."""
    trials = table.trials
    train, evaluation, wall = (numbers(trials, f"{part}_seconds") for part in ("train", "eval", "wall"))
    busy = train.fillna(0.0) + evaluation.fillna(0.0)
    # A clock that was set back must not make the rest negative.
    held = wall.fillna(busy).where(lambda seconds: seconds >= busy, busy)
    total = float(held.sum())
    own = held - _starts(trials, most=held - busy)

    def line(name: str, seconds: pd.Series, whole: float = total) -> CostLine:
        amount, count = float(seconds.sum()), len(seconds)
        mean = duration(amount / count) if count else "–"
        return CostLine(name, count, duration(amount), mean, amount / whole if whole > 0 else 0.0)

    def lines(column: str, names: Sequence[str]) -> tuple[CostLine, ...]:
        groups = ((name, own[trials[column] == name]) for name in names)
        return tuple(line(name, group, float(own.sum())) for name, group in groups if len(group))

    lost = line("lost", own[trials["status"] != "finished"])
    starting = total - float(own.sum())
    return Cost(
        total=duration(total),
        wasted=lost.total,
        wasted_share=lost.share,
        parts=(line("training", train), line("evaluation", evaluation), line("loading, saving, waiting", held - busy)),
        by_status=lines("status", STATUSES),
        by_method=lines("method", sorted(set(trials["method"]))),
        starts=duration(starting) if starting > 0 else "",
    )


def _starts(trials: pd.DataFrame, *, most: pd.Series) -> pd.Series:
    """Seconds that the first trial on each worker waited for its first step, ``most`` at most; 0 for all others."""
    waited = numbers(trials, "first_step_at") - numbers(trials, "started_at")
    if "worker" not in trials.columns:
        return pd.Series(0.0, trials.index)
    order = trials.assign(_at=numbers(trials, "started_at")).sort_values("_at", kind="stable")
    named = order[order["worker"].map(str) != ""]
    first = named.drop_duplicates(["sweep", "worker"]).index
    return waited.where(trials.index.isin(first), 0.0).fillna(0.0).clip(lower=0.0).clip(upper=most)
