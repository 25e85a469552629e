"""Replay a sweep on a table of recorded runs, with the real study and scheduler. Each epoch costs one unit of time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.table import Run, Table
from sweeper.search.archive import ParetoArchive, Row, number
from sweeper.search.halving import Mode
from sweeper.search.samplers import Search
from sweeper.search.schedulers import NONE, SCHEDULERS, Scheduler, comparison_axes
from sweeper.search.study import Proposal, SweepStudy
from trainables.run.reports import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A search strategy, given by options of the command ``pareto``."""

    sampler: str = "tpe"
    scheduler: str = NONE
    candidates: str = "all"
    stopping: Mode = "stop"
    grace: int = 1
    reduction: int = 2
    trials: int = 16
    epoch_budget: int | None = None
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Course:
    """The result of a replay: each candidate with the number of epochs spent when it was found, in order.

    Attributes:
        spent: the total number of epochs.
        trials, stopped: the number of trials, and the number of trials that the scheduler stopped or left paused.
        distance: the mean distance between proposals and the runs that replaced them (see :meth:`Table.nearest`).
        order: the ids of the runs, in the order in which the search used them.
    """

    found: tuple[tuple[int, Row], ...]
    spent: int
    trials: int
    stopped: int
    distance: float
    order: tuple[str, ...]


@dataclass(slots=True)
class _Trial:
    proposal: Proposal
    run: Run
    done: int = 0
    ended: bool = False

    @property
    def row(self) -> Row:
        """Return the row of the epoch that was just evaluated."""
        return self.run.epochs[self.done - 1]


@dataclass(slots=True)
class _Sweep:
    """The state of a replayed sweep between two events."""

    table: Table
    arm: Arm
    study: SweepStudy
    scheduler: Scheduler | None
    untaken: set[int]
    running: list[tuple[int, int, _Trial]] = field(default_factory=list)
    waiting: dict[str, _Trial] = field(default_factory=dict)
    found: list[tuple[int, Row]] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    spent: int = 0
    stopped: int = 0
    turns: itertools.count[int] = field(default_factory=itertools.count)

    def run(self) -> None:
        """Continue until nothing runs and nothing is left to start."""
        now = 0
        while True:
            while len(self.running) < self.arm.workers and self._affordable and (trial := self._next()) is not None:
                self._work(now, trial)
            if not self.running:
                return
            now, _, trial = heapq.heappop(self.running)
            self._after_epoch(now, trial)

    @property
    def _affordable(self) -> bool:
        return self.arm.epoch_budget is None or self.spent + len(self.running) < self.arm.epoch_budget

    def _work(self, now: int, trial: _Trial) -> None:
        heapq.heappush(self.running, (now + 1, next(self.turns), trial))

    def _next(self) -> _Trial | None:
        """Return a paused trial that may continue, or else a new trial with the unused run nearest to a proposal."""
        if self.scheduler is not None and (promoted := self.scheduler.next_promotion(among=list(self.waiting))):
            return self.waiting.pop(promoted)
        if not self.untaken or (proposal := self.study.ask()) is None:
            return None
        place, distance = self.table.nearest(proposal.config, self.untaken)
        self.untaken.remove(place)
        self.distances.append(distance)
        self.order.append(self.table.runs[place].trial_id)
        return _Trial(proposal, self.table.runs[place])

    def _after_epoch(self, now: int, trial: _Trial) -> None:
        trial.done += 1
        self.spent += 1
        over = trial.done == len(trial.run.epochs)
        if self.arm.candidates == "all" or (over and trial.run.status == Status.FINISHED):
            self.found.append((self.spent, trial.row))
        if over:
            self._tell(now, trial, trial.run.status)
            return
        decision = self._decide(trial)
        if decision == "continue" and self._affordable:
            self._work(now, trial)
        elif decision == "pause":
            self.waiting[trial.proposal.trial_id] = trial
        elif decision == "stop":
            self.stopped += 1
            self._tell(now, trial, Status.STOPPED)

    def _decide(self, trial: _Trial) -> str:
        if self.scheduler is None:
            return "continue"
        values = [number(trial.row.get(item.column)) for item in self.table.objectives]
        known = [value if math.isfinite(value) else None for value in values]
        return self.scheduler.decide(trial.proposal.trial_id, number(trial.row["epoch"]), known)

    def _tell(self, now: int, trial: _Trial, status: str) -> None:
        row: Mapping[str, object] = {**trial.row, "status": str(status), "ended_at": float(now)}
        epochs = trial.run.epochs[: trial.done] if self.arm.candidates == "all" else ()
        self.study.tell(trial.proposal.trial_id, row, epochs)


def replay(table: Table, arm: Arm, *, seed: int) -> Course:
    """Replay one search of the table until its trials, its epochs or the table's runs are used up.

    Workers are equally fast. If two epochs end at the same time, the one that started first is reported first. With one
    worker, the proposals are those of a real sweep with one worker, as long as the table has the proposed runs.
    """
    import optuna

    study = SweepStudy(
        optuna.storages.InMemoryStorage(),
        ParetoArchive(table.objectives),
        Search(space=table.space, trials=arm.trials, seed=seed),
        sampler=arm.sampler,
        seeds=(table.seed,),
    )
    scheduler = None
    if arm.scheduler != NONE:
        scheduler = SCHEDULERS[arm.scheduler](
            comparison_axes(table.objectives),
            epochs=table.epochs,
            grace=arm.grace,
            reduction=arm.reduction,
            mode=arm.stopping,
        )
    sweep = _Sweep(table, arm, study, scheduler, set(range(len(table.runs))))
    sweep.run()
    return Course(
        found=tuple(sweep.found),
        spent=sweep.spent,
        trials=len(sweep.order),
        stopped=sweep.stopped + len(sweep.waiting),
        distance=sum(sweep.distances) / max(1, len(sweep.distances)),
        order=tuple(sweep.order),
    )
