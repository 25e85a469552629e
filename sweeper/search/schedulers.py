"""The registry of schedulers, and the objectives by which a scheduler compares trials."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from search_spaces.common.objective import Objective
from sweeper.search.halving import Decision, Mode, SuccessiveHalving

if TYPE_CHECKING:
    from sweeper.settings.sweep_settings import SweepSettings
    from sweeper.store.state import Trial
    from trainables.target.target import Target


class Scheduler(Protocol):
    """Decides after every report whether a trial continues.

    A scheduler has no state. The event log records its decisions, so a resumed sweep keeps them even if the scheduler
    has changed. ``compared`` are the trials to compare: all trials of the sweep except those with copied results.
    """

    def decide(self, trial: Trial, compared: Collection[Trial]) -> Decision:
        """Return whether the trial continues, stops or pauses after its last report."""

    def next_promoted(self, waiting: Collection[Trial], compared: Collection[Trial]) -> Trial | None:
        """Return one of the paused trials that may continue now, or None."""


class MakeScheduler(Protocol):
    """Creates a scheduler. ``epochs`` is the number of epochs of a complete trial."""

    def __call__(
        self, objectives: Sequence[Objective], *, epochs: int, grace: int, reduction: int, mode: Mode
    ) -> Scheduler: ...


SCHEDULERS: Mapping[str, MakeScheduler] = {
    "moasha": SuccessiveHalving,
}
"""The schedulers, keyed by the values of ``--scheduler`` (:data:`sweeper.settings.names.SCHEDULERS`)."""


def open_scheduler(settings: SweepSettings, target: Target) -> Scheduler | None:
    """Return the sweep's scheduler, or None if all trials run to the end."""
    from sweeper.settings.names import NO_SCHEDULER
    from sweeper.settings.objectives import with_bounds
    from trainables.modality import dataset_modality

    if settings.scheduler == NO_SCHEDULER:
        return None
    objectives = compared_objectives(settings.parsed_objectives, metrics_every=settings.base.metrics_every)
    unit = dataset_modality(settings.base.dataset).unit
    return SCHEDULERS[settings.scheduler](
        with_comparison_scales(with_bounds(objectives, math.log(target.vocabulary_size), unit=unit)),
        epochs=settings.base.epochs,
        grace=settings.grace,
        reduction=settings.reduction,
        mode=cast(Mode, settings.stopping),
    )


def compared_objectives(objectives: Sequence[Objective], *, metrics_every: int | None) -> tuple[Objective, ...]:
    """Return the objectives by which the scheduler compares trials.

    These are the sweep's objectives if all are measured at every evaluation, otherwise the forget loss and the retain
    loss.
    """
    from sweeper.settings.objectives import DEFAULT_OBJECTIVES, parse_objectives
    from trainables.metrics.registry import METRICS

    is_measured = metrics_every == 1 or all(METRICS[item.column].comes_with_losses for item in objectives)
    return tuple(objectives) if is_measured else parse_objectives(DEFAULT_OBJECTIVES)


def with_comparison_scales(objectives: Iterable[Objective]) -> tuple[Objective, ...]:
    """Return the objectives with the scales by which a scheduler compares trials: symlog for a minimized loss.

    On a linear scale, retain losses of 0.03 and 0.3 would be nearly equal.
    """
    from trainables.metrics.registry import METRICS

    return tuple(
        replace(item, scale="symlog")
        if item.direction == "min" and item.column in METRICS and METRICS[item.column].loss
        else item
        for item in objectives
    )
