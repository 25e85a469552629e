"""The schedulers by name, what they are told of a sweep, and what of it is compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sweeper.search.halving import MODES, Axis, Decision, Mode, SuccessiveHalving
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, Objective, axes, parse_objectives
from sweeper.settings.sweep_settings import SweepSettings
from trainables.metrics.registry import METRICS
from trainables.modality import dataset_modality
from trainables.target.target import Target

if TYPE_CHECKING:
    from analysis.tables.trade_off import Objective as BoundedObjective


NONE = "none"
"""The name under which every trial runs to its end."""


class Scheduler(Protocol):
    """Decide after every epoch which trials continue. The sweep and benchmarks/replay use the same one."""

    def judge(self, trial_id: str, epoch: float, values: Sequence[float | None]) -> Decision:
        """What becomes of the trial after this epoch; telling one twice changes nothing."""

    def ended_at(self, trial_id: str) -> int | None:
        """The epoch at which it was ended or waits; None for a trial that goes on."""

    def next_promotion(self, among: Sequence[str] | None = None) -> str | None:
        """A waiting trial, one of ``among``, that goes on from here."""


class MakeScheduler(Protocol):
    """What :data:`SCHEDULERS` holds."""

    def __call__(self, axes: Sequence[Axis], *, epochs: int, grace: int, reduction: int, mode: Mode) -> Scheduler: ...


SCHEDULERS: Mapping[str, MakeScheduler] = {
    "moasha": SuccessiveHalving,
}
"""What makes each scheduler, by name. ``epochs`` are those of a whole trial; the rest are the user's settings."""


def comparison_axes(objectives: Iterable[BoundedObjective]) -> tuple[Axis, ...]:
    """The objectives as trials are compared by them: a loss that is to stay low in the logarithm.

    A retain loss of 0.03 is better than one of 0.3 by as much as that is better than 3, though of the whole range up
    to a random guess the first two are one place.
    """
    return tuple(
        Axis(item.low, item.high, log=item.column in METRICS and METRICS[item.column].loss)
        if item.direction == "min"
        else Axis(item.high, item.low)
        for item in objectives
    )


def compared(objectives: Sequence[Objective], *, metrics_every: int | None) -> tuple[Objective, ...]:
    """What trials can be compared by after every epoch: the objectives, or the two losses where one is not measured."""
    known = all(METRICS[item.column].loss for item in objectives) or metrics_every == 1
    return tuple(objectives) if known else parse_objectives(DEFAULT_OBJECTIVES)


def rebuilt(scheduler: Scheduler, columns: Sequence[str], history: Iterable[Mapping[str, str]]) -> None:
    """Tell a new ``scheduler`` the rows of history.csv in the order in which they were written, as after a kill."""
    for row in sorted(history, key=lambda row: float(row["reported_at"] or 0.0)):
        scheduler.judge(row["trial_id"], float(row["epoch"]), [_number(row.get(name)) for name in columns])


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def open_scheduler(settings: SweepSettings, target: Target, history: Iterable[Mapping[str, str]]) -> Scheduler | None:
    """The scheduler, told the rows of history.csv; None where every trial runs to its end."""
    if settings.scheduler == NONE:
        return None
    guess, unit = math.log(target.vocabulary_size), dataset_modality(settings.base.dataset).unit
    objectives = compared(settings.parsed_objectives, metrics_every=settings.base.metrics_every)
    scheduler = SCHEDULERS[settings.scheduler](
        comparison_axes(axes(objectives, guess, unit=unit)),
        epochs=settings.base.epochs,
        grace=settings.grace,
        reduction=settings.reduction,
        mode=next(mode for mode in MODES if mode == settings.stopping),
    )
    rebuilt(scheduler, compared_columns(settings), history)
    return scheduler


def compared_columns(settings: SweepSettings) -> tuple[str, ...]:
    """The columns of a report by which trials are compared."""
    objectives = compared(settings.parsed_objectives, metrics_every=settings.base.metrics_every)
    return tuple(item.column for item in objectives)
