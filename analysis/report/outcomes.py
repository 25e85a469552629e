"""Summarize how the trials ended, and how many seconds they took."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from analysis.tables.trial_table import STATUSES, TrialTable, is_merged, is_reused, numbers

_REST = "loading, saving, waiting"


class Failure(NamedTuple):
    """The trials that failed or diverged for the same reason.

    Reasons that differ only in numbers, such as the step, count as the same reason. In this case, ``varied`` is true.
    """

    status: str
    reason: str
    varied: bool
    trial_ids: tuple[str, ...]
    methods: tuple[str, ...]


class EarlyStops(NamedTuple):
    """The trials that a scheduler stopped. Reused trials do not count.

    Attributes:
        stopped: the number of stopped trials.
        trials: the number of all trials.
        stops_by_epoch: pairs (epoch, number of trials that were stopped after this epoch).
        saved_epochs: the number of planned epochs that the stopped trials did not run; None if unknown.
        planned_epochs: the number of planned epochs of all trials; None if unknown.
    """

    stopped: int
    trials: int
    stops_by_epoch: tuple[tuple[float, int], ...]
    saved_epochs: float | None
    planned_epochs: float | None


class CostLine(NamedTuple):
    """The cost of a group of trials, or of one part of all trials, such as training.

    Attributes:
        seconds: the sum over the trials.
        mean: the mean per trial; None without trials.
        share: ``seconds`` as a fraction of the sum over all groups or parts."""

    name: str
    trials: int
    seconds: float
    mean: float | None
    share: float


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a sweep: the seconds for which the trials used their workers. Reused trials used no worker.

    Attributes:
        seconds: the sum over all trials.
        groups: the cost by ``part`` (training, evaluation, and the rest), by ``status`` and by ``method``. The groups
            by status and by method do not include ``startup_seconds``.
        startup_seconds: the time to start the workers: the seconds from the start of each worker's first trial to this
            trial's first step, summed over the workers.
        lost: the cost of the unfinished trials, without ``startup_seconds``.
        reused: the number of reused trials, which the other fields leave out.
    """

    seconds: float
    groups: Mapping[str, Sequence[CostLine]]
    startup_seconds: float
    lost: CostLine
    reused: int


def status_counts(table: TrialTable) -> dict[str, int]:
    """Return the number of trials for each status in :data:`STATUSES`. Merged models are no trials of the search."""
    statuses = table.trials.loc[~is_merged(table.trials), "status"]
    return {status: int((statuses == status).sum()) for status in STATUSES}


def failures(table: TrialTable) -> tuple[Failure, ...]:
    """Group the failed and diverged trials by status and reason. The largest group comes first."""
    unfinished = table.trials[~table.trials["status"].isin(("finished", "stopped"))]
    # "at step 12" and "at step 40" are the same reason.
    reasons = unfinished["error"].map(lambda reason: re.sub(r"\d[\d.]*", "#", str(reason)))
    groups = [
        Failure(
            status=str(status),
            reason=str(rows["error"].iloc[0]),
            varied=rows["error"].nunique() > 1,
            trial_ids=tuple(rows["trial_id"]),
            methods=tuple(sorted(set(rows["method"]))),
        )
        for (status, _), rows in unfinished.groupby([unfinished["status"], reasons])
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.trial_ids), STATUSES.index(group.status), group.reason)))


def early_stops(table: TrialTable) -> EarlyStops | None:
    """Return a summary of the trials that a scheduler stopped; None if there are no such trials."""
    trials = table.trials[~is_reused(table.trials) & ~is_merged(table.trials)]
    stopped = trials[trials["status"] == "stopped"]
    if stopped.empty:
        return None
    done = numbers(stopped, "epochs_done")
    saved = float((numbers(stopped, "epochs") - done).sum())
    planned = float(numbers(trials, "epochs").sum())
    stop_epochs = sorted(set(done.dropna().tolist()))
    has_epochs = bool(stop_epochs) and planned > 0
    return EarlyStops(
        stopped=len(stopped),
        trials=len(trials),
        stops_by_epoch=tuple((epoch, int((done == epoch).sum())) for epoch in stop_epochs),
        saved_epochs=saved if has_epochs else None,
        planned_epochs=planned if has_epochs else None,
    )


def cost(table: TrialTable) -> Cost:
    """Return the cost of the search. Merged models, which were not trained, do not count."""
    searched = table.trials[~is_merged(table.trials)]
    trials = searched[~is_reused(searched)]
    train, evaluation, wall = (numbers(trials, f"{part}_seconds") for part in ("train", "eval", "wall"))
    busy_seconds = train.fillna(0.0) + evaluation.fillna(0.0)
    # The rest must not be negative, even if the clock was set back.
    worker_seconds = wall.fillna(busy_seconds).where(lambda seconds: seconds >= busy_seconds, busy_seconds)
    # The time for starting workers depends on the order of the trials, so the groups by status and method leave it out.
    net_seconds = worker_seconds - _startup_seconds(trials, limits=worker_seconds - busy_seconds)
    total, net_total = float(worker_seconds.sum()), float(net_seconds.sum())

    def line(name: str, seconds: pd.Series, base: float) -> CostLine:
        amount, count = float(seconds.sum()), len(seconds)
        mean = amount / count if count else None
        return CostLine(name, count, amount, mean, share=amount / base if base > 0 else 0.0)

    generation = numbers(trials, "generation_seconds").fillna(0.0)
    parts = {"training": train}
    if generation.any():
        parts |= {"losses and metrics": evaluation - generation, "generation of answers": generation}
    else:
        parts["evaluation"] = evaluation
    parts[_REST] = worker_seconds - busy_seconds
    status = trials["status"]
    groups = {
        "part": [line(name, part, total) for name, part in parts.items()],
        "status": [line(name, net_seconds[status == name], net_total) for name in STATUSES if (status == name).any()],
        "method": [line(str(name), group, net_total) for name, group in net_seconds.groupby(trials["method"])],
    }
    lost = line("lost", net_seconds[status != "finished"], net_total)
    return Cost(total, groups, startup_seconds=total - net_total, lost=lost, reused=len(searched) - len(trials))


def _startup_seconds(trials: pd.DataFrame, *, limits: pd.Series) -> pd.Series:
    """Return, for each worker's first trial, the seconds from its start to its first step; 0 for all other trials."""
    startup_seconds = numbers(trials, "first_step_at") - numbers(trials, "started_at")
    if "worker" not in trials.columns:
        return pd.Series(0.0, trials.index)
    order = trials.assign(_at=numbers(trials, "started_at")).sort_values("_at", kind="stable")
    with_worker = order[order["worker"].map(str) != ""]
    first_trials = with_worker.drop_duplicates(["sweep", "worker"]).index
    return startup_seconds.where(trials.index.isin(first_trials), 0.0).fillna(0.0).clip(lower=0.0).clip(upper=limits)
