"""Replay a sweep on a table of recorded runs, with the real study and scheduler, for one worker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import optuna

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


@dataclass(frozen=True, slots=True)
class Course:
    """The result of a replay: each candidate with the number of epochs spent when it was found, in order.

    ``spent`` is the total number of epochs, ``stopped`` the number of trials that the scheduler stopped or left paused,
    and ``order`` the ids of the runs, in the order in which the search used them.
    """

    found: tuple[tuple[int, Row], ...]
    spent: int
    stopped: int
    order: tuple[str, ...]


@dataclass(slots=True)
class _Trial:
    proposal: Proposal
    run: Run
    done: int = 0

    @property
    def row(self) -> Row:
        """The row of the epoch that was just evaluated."""
        return self.run.epochs[self.done - 1]


@dataclass(slots=True)
class _Sweep:
    """The state of a replayed sweep between two epochs."""

    table: Table
    arm: Arm
    study: SweepStudy
    scheduler: Scheduler | None
    unused: set[int]
    waiting: dict[str, _Trial] = field(default_factory=dict)
    found: list[tuple[int, Row]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    spent: int = 0
    stopped: int = 0

    def next_trial(self) -> _Trial | None:
        """Return a paused trial that may continue, or else a new trial with the unused run nearest to a proposal."""
        if self.scheduler is not None and (promoted := self.scheduler.next_promotion(among=list(self.waiting))):
            return self.waiting.pop(promoted)
        if not self.unused or (proposal := self.study.ask()) is None:
            return None
        place = self.table.nearest(proposal.config, self.unused)
        self.unused.remove(place)
        self.order.append(self.table.runs[place].trial_id)
        return _Trial(proposal, self.table.runs[place])

    def train(self, trial: _Trial) -> None:
        """Spend epochs on a trial until it ends or pauses, or until the budget is spent."""
        while not self.is_over:
            trial.done += 1
            self.spent += 1
            is_over = trial.done == len(trial.run.epochs)
            if self.arm.candidates == "all" or (is_over and trial.run.status == Status.FINISHED):
                self.found.append((self.spent, trial.row))
            decision = "continue" if is_over else self._decide(trial)
            if is_over or decision == "stop":
                self.stopped += not is_over
                self._tell(trial, trial.run.status if is_over else Status.STOPPED)
                return
            if decision == "pause":
                self.waiting[trial.proposal.trial_id] = trial
                return

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return self.arm.epoch_budget is not None and self.spent >= self.arm.epoch_budget

    def _decide(self, trial: _Trial) -> str:
        if self.scheduler is None:
            return "continue"
        values = [number(trial.row.get(item.column)) for item in self.table.objectives]
        known = [value if math.isfinite(value) else None for value in values]
        return self.scheduler.decide(trial.proposal.trial_id, number(trial.row["epoch"]), known)

    def _tell(self, trial: _Trial, status: str) -> None:
        row: Mapping[str, object] = {**trial.row, "status": str(status), "ended_at": float(self.spent)}
        epochs = trial.run.epochs[: trial.done] if self.arm.candidates == "all" else ()
        self.study.tell(trial.proposal.trial_id, row, epochs)


def replay(table: Table, arm: Arm, *, seed: int) -> Course:
    """Replay one search of the table until its trials, its epochs or the table's runs are used up.

    The proposals are those of a real sweep with one worker, as long as the table has the proposed runs.
    """
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
    while not sweep.is_over and (trial := sweep.next_trial()) is not None:
        sweep.train(trial)
    stopped = sweep.stopped + len(sweep.waiting)
    return Course(found=tuple(sweep.found), spent=sweep.spent, stopped=stopped, order=tuple(sweep.order))
