"""Estimate the duration of a trial from similar trials of previous sweeps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from search_spaces.common.messages import counted
from search_spaces.common.values import as_float
from sweeper.store.events import Phase
from sweeper.store.folder import SweepError, read_settings
from sweeper.store.tables import ResultTables
from trainables.run.reports import Status
from trainables.spec import FIELDS, TrialSpec

_ROLES = ("data", "placement", "training", "scoring")
_IGNORED_FIELDS = ("lr", "seed", "epochs", "data_seed", "target_seed")
"""The fields in which similar trials may differ, because the fields have little effect on the duration of an epoch."""


@dataclass(frozen=True, slots=True)
class TrialPace:
    """The duration of a trial, estimated from the finished trials of a previous sweep.

    Attributes:
        epoch: the seconds per epoch.
        beside: the seconds that do not depend on the number of epochs: loading, final metrics and saving.
        generation: the seconds for generating the answers of the final metrics.
        source: the number of these trials and their sweep, such as ``8 trials of runs/small``.
    """

    epoch: float
    beside: float
    source: str
    generation: float = 0.0

    def trial_seconds(self, epochs: float) -> float:
        """Return the estimated seconds of a trial with this number of epochs."""
        return self.beside + epochs * self.epoch


def estimate_pace(spec: TrialSpec, folders: Iterable[Path], *, gpus: float | str) -> TrialPace | None:
    """Return the median times of the first similar sweep's finished trials; None if no sweep in ``folders`` is similar.

    A sweep is similar if its trials use ``gpus`` GPUs and agree with ``spec`` in all fields that affect the duration.
    """
    compared_fields = [name for name, item in FIELDS.items() if item.role in _ROLES and name not in _IGNORED_FIELDS]
    for folder in folders:
        try:
            settings = read_settings(folder)
            rows = ResultTables(folder).trials.read()
        except (SweepError, OSError, ValueError):
            continue
        is_similar = all(getattr(settings.base, name) == getattr(spec, name) for name in compared_fields)
        if not is_similar or settings.gpus_per_trial != gpus:
            continue
        trials = [row for row in rows if _has_times(row)]
        if not trials:
            continue
        return TrialPace(
            epoch=statistics.median(_epoch_seconds(row) / as_float(row["epochs_done"]) for row in trials),
            beside=statistics.median(max(0.0, as_float(row["wall_seconds"]) - _epoch_seconds(row)) for row in trials),
            source=f"{counted(len(trials), 'trial')} of {folder}",
            generation=statistics.median(_seconds(row, "generation") for row in trials),
        )
    return None


def _has_times(row: Mapping[str, str]) -> bool:
    """Return whether a trial of the search ran in its own sweep, has finished, and trained for at least one epoch."""
    is_own = not row.get("reused_from") and (row.get("phase") or Phase.SEARCH) == Phase.SEARCH
    return is_own and row["status"] == Status.FINISHED and as_float(row.get("epochs_done")) > 0


def _epoch_seconds(row: Mapping[str, str]) -> float:
    """Return the seconds that a trial spent on training and evaluation, except for the generation of answers."""
    return _seconds(row, "train") + max(0.0, _seconds(row, "eval") - _seconds(row, "generation"))


def _seconds(row: Mapping[str, str], name: str) -> float:
    """Return a duration in a row of trials.csv; 0 if it is unknown."""
    value = as_float(row.get(f"{name}_seconds"))
    return value if math.isfinite(value) else 0.0
