"""The scheduler of a sweep, as it stands: new, or as the sweep's history left it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from sweeper.search.halving import MODES
from sweeper.search.schedulers import NONE, SCHEDULERS, Scheduler, compared, comparison_axes, rebuilt
from sweeper.settings.objectives import axes
from sweeper.settings.sweep_settings import SweepSettings
from trainables.modality import dataset_modality
from trainables.target.target import Target


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
    rebuilt(scheduler, columns_compared(settings), history)
    return scheduler


def columns_compared(settings: SweepSettings) -> tuple[str, ...]:
    """The columns of a report by which trials are compared."""
    objectives = compared(settings.parsed_objectives, metrics_every=settings.base.metrics_every)
    return tuple(item.column for item in objectives)
