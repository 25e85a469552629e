"""Replay sweeps on a table of recorded runs, with the real study and scheduler, for one worker.

A table such as ``docs/data/tabulated_authors.csv.xz`` has a row per run and epoch. The columns ``method``, ``lr`` and
``c`` are the configuration of a run, ``status`` is the status of the ended run, and ``random_guess`` is the loss of a
random guess.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import optuna
import pandas as pd

from analysis.frontier.frontier import hypervolume
from analysis.tables.trade_off import Floats
from search_spaces.common.front import Criteria, nondominated
from search_spaces.common.objective import Objective
from search_spaces.common.values import Value, as_float
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.search.archive import ParetoArchive, Row
from sweeper.search.samplers import Search
from sweeper.search.schedulers import SCHEDULERS, with_comparison_scales
from sweeper.search.study import SweepStudy
from sweeper.settings.names import NO_SCHEDULER
from sweeper.settings.objectives import parse_objectives, with_bounds
from sweeper.store.events import OptunaTrial
from sweeper.store.state import Trial
from trainables.run.reports import EpochReport, Status

OBJECTIVES = parse_objectives("forget_loss:max,retain_loss:min")
FAR = 2.0
"""The distance of two different methods. This is larger than the distance between the two ends of any range."""
HYPERVOLUME, EPSILON = 0.98, 0.05
"""A search has found the frontier of a table if it has at least this share of the table's hypervolume and at most this
additive epsilon relative to the table's frontier."""


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded trial: configuration, status, and a row per epoch. The last row of a diverged trial has no losses."""

    trial_id: str
    config: Mapping[str, Value]
    status: str
    epochs: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """All recorded runs with one seed on one problem, the search space of these runs, and the objectives."""

    space: Space
    objectives: tuple[Objective, ...]
    runs: tuple[Run, ...]
    seed: int = 0

    @cached_property
    def all_epochs(self) -> int:
        """The number of epochs of all runs."""
        return sum(len(run.epochs) for run in self.runs)

    @cached_property
    def front(self) -> Floats:
        """The costs of the epochs on the frontier of the whole table, shape (n, 2)."""
        rows = [row for run in self.runs for row in run.epochs]
        points = np.unique([cost for row in rows if (cost := self.costs(row)) is not None], axis=0)
        return points[nondominated(points)]

    @cached_property
    def volume(self) -> float:
        """The hypervolume of the frontier of the whole table."""
        return hypervolume(self.front)

    def costs(self, row: Row) -> Floats | None:
        """Return the costs of an epoch in [0, 1], or None if an objective was not measured or is not finite."""
        values = [as_float(row.get(item.column)) for item in self.objectives]
        if not all(map(math.isfinite, values)):
            return None
        return np.array([item.cost(value) for item, value in zip(self.objectives, values, strict=True)])

    def nearest(self, config: Mapping[str, object], indices: Collection[int]) -> int:
        """Return the index in ``indices`` of the run that is nearest to a configuration. Ties go to the first run."""
        return min(sorted(indices), key=lambda index: self.distance(config, self.runs[index].config))

    def distance(self, one: Mapping[str, object], other: Mapping[str, object]) -> float:
        """Return the distance of two configurations. Numbers are scaled to shares of their search range."""
        differences = []
        for parameter in self.space.parameters:
            a, b = one.get(parameter.name), other.get(parameter.name)
            if isinstance(parameter, Number) and isinstance(a, int | float) and isinstance(b, int | float):
                width = _scaled(parameter, parameter.high) - _scaled(parameter, parameter.low)
                differences.append((_scaled(parameter, a) - _scaled(parameter, b)) / width)
            else:
                differences.append(0.0 if a == b else FAR)
        return math.hypot(*differences)


def _scaled(parameter: Number, value: float) -> float:
    if parameter.log:
        return math.log(value)
    return math.log(1.0 - value) if parameter.log_to_one else value


def read_tables(path: Path) -> list[Table]:
    """Return the table of each seed in a file. The search space covers the methods, rates and values of c in the file.

    Raises:
        ValueError: a configuration is not in the space, such as a value of c for a method other than gdiff.
    """
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    rates, weights = (sorted({float(cell) for cell in rows[name] if cell}) for name in ("lr", "c"))
    lr = Number("lr", rates[0], rates[-1], log=True, grid=tuple(rates))
    c = Number("c", weights[0], weights[-1], log_to_one=True, grid=tuple(weights), when={"method": ("gdiff",)})
    space = Space.from_parameters([Choice("method", tuple(rows["method"].unique())), c, lr])
    runs: defaultdict[int, list[Run]] = defaultdict(list)
    for trial_id, group in rows.groupby("trial_id", sort=False):
        epochs = cast(list[dict[str, str]], sorted(group.to_dict("records"), key=lambda row: as_float(row["epoch"])))
        last = epochs[-1]
        numbers = {name: float(last[name]) for name in ("lr", "c") if last[name]}
        config = space.configuration({"method": last["method"], **numbers})
        runs[int(last["seed"])].append(Run(str(trial_id), config, last["status"], tuple(epochs)))
    objectives = with_bounds(OBJECTIVES, as_float(rows["random_guess"][0]))
    return [Table(space, objectives, tuple(group), seed) for seed, group in sorted(runs.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A search strategy, given by options of the command ``pareto``."""

    sampler: str = "tpe"
    scheduler: str = NO_SCHEDULER
    candidates: str = "all"
    grace: int = 1
    reduction: int = 2
    trials: int = 16
    epoch_budget: float = math.inf


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay: each candidate with the number of epochs spent when it was found, in order.

    ``spent`` is the total number of epochs, ``stopped`` the number of trials that the scheduler stopped, and ``order``
    the ids of the runs, in the order in which the search used them.
    """

    candidates: tuple[tuple[int, Row], ...]
    spent: int
    stopped: int
    order: tuple[str, ...]


def replay(table: Table, arm: Arm, *, seed: int) -> ReplayResult:
    """Replay one search of the table until its trials, its epochs or the table's runs are used up.

    Each proposed configuration is replaced by the nearest unused run. As long as the table has the proposed
    configurations, the proposals equal those of a real sweep with one worker.
    """
    study = SweepStudy(
        optuna.storages.InMemoryStorage(),
        ParetoArchive(Criteria(table.objectives)),
        Search(space=table.space, trials=arm.trials, seed=seed),
        sampler=arm.sampler,
        seeds=(table.seed,),
    )
    scheduler = None
    if arm.scheduler != NO_SCHEDULER:
        longest = max(len(run.epochs) for run in table.runs)
        rungs = {"epochs": longest, "grace": arm.grace, "reduction": arm.reduction}
        scheduler = SCHEDULERS[arm.scheduler](with_comparison_scales(table.objectives), **rungs, mode="stop")
    unused_runs, found_candidates, order = set(range(len(table.runs))), list[tuple[int, Row]](), list[str]()
    trials: list[Trial] = []
    spent = stopped = 0
    while unused_runs and spent < arm.epoch_budget and (suggestion := study.ask()) is not None:
        trial_id, config = suggestion
        index = table.nearest(config, unused_runs)
        unused_runs.remove(index)
        run = table.runs[index]
        order.append(run.trial_id)
        trial = Trial(trial_id, config, OptunaTrial())
        trials.append(trial)
        for epoch, row in enumerate(run.epochs, 1):
            if spent >= arm.epoch_budget:
                break
            spent += 1
            status = run.status if epoch == len(run.epochs) else None
            if arm.candidates == "all" or status == Status.FINISHED:
                found_candidates.append((spent, row))
            losses = {item.column: as_float(row.get(item.column)) for item in table.objectives}
            trial.reports.append(EpochReport(epoch, float(epoch), losses=losses))
            if status is None and scheduler is not None and scheduler.decide(trial, trials) == "stop":
                status = Status.STOPPED
                stopped += 1
            if status is not None:
                outcome = {**row, "status": str(status), "ended_at": float(spent)}
                study.tell(trial_id, outcome, run.epochs[:epoch] if arm.candidates == "all" else ())
                break
    return ReplayResult(candidates=tuple(found_candidates), spent=spent, stopped=stopped, order=tuple(order))


@dataclass(frozen=True, eq=False)
class Progress:
    """The progress of a replayed search, as step curves over the number of epochs spent.

    Attributes:
        share: the hypervolume as a share of the whole table's hypervolume, shape (epochs + 1,).
        epsilon: the additive epsilon relative to the whole table's frontier, shape (epochs + 1,); 1 while the search
            has no candidate.
    """

    share: Floats
    epsilon: Floats

    @property
    def reached(self) -> int | None:
        """The number of epochs after which the frontier counts as found; None if it was never found."""
        reached_epochs = np.flatnonzero((self.share >= HYPERVOLUME) & (self.epsilon <= EPSILON))
        return int(reached_epochs[0]) if len(reached_epochs) else None


def progress(result: ReplayResult, table: Table, *, epochs: int) -> Progress:
    """Return the curves of one replay up to ``epochs``. After the end of the replay the curves are constant."""
    share, epsilon = np.zeros(epochs + 1), np.ones(epochs + 1)
    # The additive epsilon is the largest distance by which the search misses a point of the whole frontier.
    distances = np.full(len(table.front), 1.0)
    own_front, volume = np.empty((0, len(table.objectives))), 0.0
    for spent, row in result.candidates:
        costs = table.costs(row)
        if costs is None or spent > epochs:
            continue
        if not (own_front <= costs).all(axis=1).any():
            own_front = np.vstack([own_front[~(costs <= own_front).all(axis=1)], costs])
            volume = hypervolume(own_front)
            distances = np.minimum(distances, (costs - table.front).max(axis=1))
        share[spent:] = volume / table.volume
        epsilon[spent:] = max(0.0, distances.max())
    return Progress(share, epsilon)
