"""Estimate the duration of a trial from similar trials of previous sweeps, or from a short trial that is run now."""

from __future__ import annotations

import math
import resource
import statistics
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from search_spaces.messages import counted
from sweeper.followers.console import own_console
from sweeper.search.archive import number
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import SweepError, read_settings
from sweeper.store.tables import ResultTables
from trainables.run.reports import Status
from trainables.spec import FIELDS, TrialSpec

_ROLES = ("data", "placement", "training", "scoring")
_FREE = ("lr", "seed", "epochs", "data_seed", "target_seed")
"""Fields in which similar trials may differ, because these fields have little effect on the duration of an epoch."""


@dataclass(frozen=True, slots=True)
class TrialPace:
    """The seconds of a trial: ``epoch`` for each epoch, and ``beside`` for loading, final metrics and saving.

    ``share`` is the fraction of the requested epochs that previous trials ran with the same ``scheduler``, or None.
    ``memory`` is the peak memory of a short run in bytes. ``source`` names the origin of the numbers.
    """

    epoch: float
    beside: float
    source: str
    share: float | None = None
    memory: int | None = None

    def trial(self, epochs: float) -> float:
        """Return the seconds of a trial with this number of epochs."""
        return self.beside + epochs * self.epoch


def earlier_pace(
    spec: TrialSpec, folders: Iterable[Path], *, scheduler: str = "none", gpus: float | str
) -> TrialPace | None:
    """Return the median times of trials in the first folder with a similar sweep, or None if there is none."""
    for folder in folders:
        settings = _similar(folder, spec, gpus=gpus)
        if settings is None:
            continue
        try:
            rows = ResultTables(folder).trials.read()
        except (OSError, ValueError):
            continue
        trained = [row for row in rows if not row.get("reused_from") and _epochs(row) > 0]
        whole = [row for row in trained if row["status"] == Status.FINISHED]
        if not whole:
            continue
        share = None
        if settings.scheduler == scheduler:
            asked = sum(number(row["epochs"]) for row in trained)
            share = sum(map(_epochs, trained)) / asked if asked > 0 else None
        return TrialPace(
            epoch=statistics.median(_in_epochs(row) / _epochs(row) for row in whole),
            beside=statistics.median(max(0.0, number(row["wall_seconds"]) - _in_epochs(row)) for row in whole),
            source=f"{counted(len(whole), 'trial')} of {folder}",
            share=share,
        )
    return None


def measured_pace(spec: TrialSpec) -> TrialPace:
    """Run one trial of two epochs and time the second epoch, because the first includes warm-up. Messages go to stderr.

    If the cache does not have the target, the target is fine-tuned first. Files are written only to the cache.

    Raises:
        DataError, TargetError: the target cannot be prepared; the message names the reason.
    """
    from sweeper.execution.target_task import prepare_with_progress
    from trainables.device import default_device
    from trainables.run.run import UnlearningRun
    from trainables.run.workspace import Workspace

    console = own_console()
    console.print("--measure: preparing the target, which stays in the cache", highlight=False, soft_wrap=True)
    target = prepare_with_progress(spec, console=console)
    console.print("--measure: running a trial of two epochs; the second is timed", highlight=False, soft_wrap=True)
    device = default_device()
    run = UnlearningRun(replace(spec, epochs=2, target_key=target.key), Workspace(target, device=device))
    reports = list(run)
    first, last = reports[0], reports[-1]
    evaluation = 0.0 if first is last else first.timers.eval_seconds
    return TrialPace(
        epoch=last.timers.train_seconds - (0.0 if first is last else first.timers.train_seconds) + evaluation,
        beside=max(0.0, last.timers.eval_seconds - 2 * evaluation),
        source="one epoch timed on this machine",
        memory=_peak(str(device)),
    )


def _peak(device: str) -> int:
    """Return the peak memory of this process in bytes; on a GPU, the peak GPU memory."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _similar(folder: Path, spec: TrialSpec, *, gpus: float | str) -> SweepSettings | None:
    """Return the settings of the sweep in ``folder`` if its trials are similar to ``spec``, or None."""
    try:
        settings = read_settings(folder)
    except SweepError:
        return None
    names = [name for name, item in FIELDS.items() if item.role in _ROLES and name not in _FREE]
    alike = all(getattr(settings.base, name) == getattr(spec, name) for name in names)
    return settings if alike and settings.gpus_per_trial == gpus else None


def _epochs(row: Mapping[str, str]) -> float:
    done = number(row.get("epochs_done"))
    return done if math.isfinite(done) else 0.0


def _in_epochs(row: Mapping[str, str]) -> float:
    """Return the seconds of training and of evaluations after epochs, without the generation of answers at the end."""
    parts = {name: number(row.get(f"{name}_seconds")) for name in ("train", "eval", "generation")}
    known = {name: value if math.isfinite(value) else 0.0 for name, value in parts.items()}
    return known["train"] + max(0.0, known["eval"] - known["generation"])
