"""The plan that ``--dry-run`` prints: what a command would do, and the time, memory and disk it needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from search_spaces.durable import free_bytes
from search_spaces.messages import counted
from sweeper.checks.disk import FLOAT, Disk, disk_of, parameters_of
from sweeper.checks.downloads import Download, downloads
from sweeper.checks.trial_time import TrialPace, earlier_pace, measured_pace
from sweeper.execution.cluster import ray_cluster
from sweeper.execution.placement import slots_here
from sweeper.search.schedulers import NONE
from sweeper.settings.resources import Resources, gpus_here
from sweeper.settings.sweep_settings import SweepSettings
from trainables.models.hub_cache import cached_snapshot
from trainables.models.registry import find_model
from trainables.optimizers import OPTIMIZER_INFO
from trainables.spec import FIELDS, TrialSpec
from trainables.target.cache import cache_folder, is_made
from trainables.target.target_spec import target_spec_of

NO_TARGET = "the target is not fine-tuned yet"
NO_DOWNLOAD = "the model or the data are not downloaded yet"
NO_SWEEP = "no previous sweep is similar"
_GRADIENTS = 2
"""At most: of the forget and of the retain loss; what a weighting makes of them takes the place of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``trials`` are left to run, ``at_once`` side by side. ``settings`` are those of all trials, and what is searched.

    With ``shares_gpus`` that is before a share has been measured. ``seconds`` is the whole estimate (``at_most``
    without what a scheduler saves), ``memory`` the bytes of a trial. ``seconds``, ``memory`` and ``disk`` are None if
    the estimate needs a target or a previous sweep that does not exist; ``unknown`` has the reasons by these names.
    ``measured`` says whether ``--measure`` prepared the target and timed an epoch.
    """

    what: str
    out: str
    settings: Mapping[str, object]
    trials: int
    asked: int
    at_once: int
    resources: Resources
    shares_gpus: bool = False
    place: str
    downloads: tuple[Download, ...]
    target: str
    seconds: float | None
    at_most: float | None
    pace: TrialPace | None
    memory: int | None
    memory_source: str
    disk: Disk | None
    unknown: Mapping[str, str]
    measured: bool
    free: int

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self) | {"disk_bytes": self.disk.bytes if self.disk else None}


def plan_of_sweep(
    settings: SweepSettings,
    out: Path,
    *,
    ended: int = 0,
    epochs_spent: float = 0.0,
    earlier: Sequence[Path] = (),
    measure: bool = False,
    console: Console,
) -> Plan:
    """Return the plan for the sweep in ``out``, of which ``ended`` trials have ended.

    ``earlier`` are the folders of other sweeps, from which the time is estimated; with ``measure`` it is estimated from
    one epoch that is run now. ``epochs_spent`` epochs of the sweep's budget are used up.

    Raises:
        PlacementError: trials cannot be placed, or no cluster answers.
        DataError, TargetError: the data cannot be read, or with ``measure`` the target cannot be prepared.
    """
    resources, left = settings.resources, max(0, settings.trials - ended)
    gpus = settings.gpus_per_trial if settings.shares_gpus else resources.gpus
    if settings.address is None:
        slots, place = slots_here(resources), f"on this machine ({counted(os.cpu_count() or 1, 'CPU')})"
    else:
        place = f"on the Ray cluster at {settings.address}"
        with ray_cluster(settings.address, resources=resources) as slots:
            pass
    at_once = max(1, min(settings.max_concurrent or slots, slots, left or 1))
    pace_of_scheduler = None if settings.scheduler == NONE else settings.scheduler
    base = _needs(
        settings.base, earlier=earlier, scheduler=settings.scheduler, gpus=gpus, measure=measure, console=console
    )
    epochs = float(settings.base.epochs)
    if settings.epoch_budget is not None and left:
        epochs = min(epochs, max(0.0, settings.epoch_budget - epochs_spent) / left)
    at_most = None if base.pace is None else base.pace.trial(epochs) * left / at_once
    share = base.pace.share if base.pace is not None and pace_of_scheduler else 1.0
    seconds = None if base.pace is None else base.pace.trial(epochs * (share or 1.0)) * left / at_once
    budget = settings.time_budget_seconds
    waiting = left if settings.scheduler != NONE and settings.stopping == "pause" else 0
    return Plan(
        what=settings.kind,
        out=str(out),
        settings=_told(settings.base)
        | {name: str(value) for name, value in settings.space.format_values(grid=settings.sampler == "grid").items()}
        | {name: getattr(settings, name) for name in ("sampler", "seeds", "scheduler", "objectives", "candidates")},
        trials=left,
        asked=settings.trials,
        at_once=at_once,
        resources=resources,
        shares_gpus=settings.shares_gpus,
        place=place,
        downloads=base.downloads,
        target=base.target,
        seconds=seconds if budget is None or seconds is None else min(seconds, budget),
        at_most=at_most if budget is None or at_most is None else min(at_most, budget),
        pace=base.pace,
        memory=base.memory,
        memory_source=base.memory_source,
        disk=base.disk(models=left, running=max(at_once, waiting)),
        unknown=base.unknown,
        measured=measure,
        free=free_bytes(out),
    )


def plan_of_run(
    spec: TrialSpec, out: Path | None, *, earlier: Sequence[Path] = (), measure: bool = False, console: Console
) -> Plan:
    """Return the plan for one run in this process, as :func:`plan_of_sweep`; if ``out`` is None, no model is kept."""
    gpus = 1.0 if gpus_here() else 0.0
    base = _needs(spec, earlier=earlier, scheduler=NONE, gpus=gpus, measure=measure, console=console)
    seconds = None if base.pace is None else base.pace.trial(spec.epochs)
    return Plan(
        what="unlearn",
        out=str(out) if out is not None else "",
        settings=_told(spec) | dict(spec.options),
        trials=1,
        asked=1,
        at_once=1,
        resources=Resources(cpus=1.0, gpus=gpus),
        place="in this process",
        downloads=base.downloads,
        target=base.target,
        seconds=seconds,
        at_most=seconds,
        pace=base.pace,
        memory=base.memory,
        memory_source=base.memory_source,
        disk=base.disk(models=1, running=1) if out is not None else None,
        unknown={name: why for name, why in base.unknown.items() if name != "disk" or out is not None},
        measured=measure,
        free=free_bytes(out or Path()),
    )


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a trial with ``spec`` needs. ``folder`` holds its model, or one of the same size."""

    spec: TrialSpec
    folder: Path | None
    downloads: tuple[Download, ...]
    target: str
    pace: TrialPace | None
    memory: int | None
    memory_source: str
    unknown: Mapping[str, str]

    def disk(self, *, models: int, running: int) -> Disk | None:
        return None if self.folder is None else disk_of(self.spec, self.folder, models=models, running=running)


def _needs(
    spec: TrialSpec, *, earlier: Sequence[Path], scheduler: str, gpus: float | str, measure: bool, console: Console
) -> _Needs:
    if measure:
        pace: TrialPace | None = measured_pace(spec, console=console)
    else:
        pace = earlier_pace(spec, earlier, scheduler=scheduler, gpus=gpus)
    missing = downloads(spec)
    trained = None if missing or spec.target_path else cache_folder() / "targets" / target_spec_of(spec).trained_key
    cached = trained is not None and is_made(trained)
    folder = _model_folder(spec, trained if cached else None)
    memory, source = (pace.memory, "measured") if pace is not None and pace.memory else _memory(spec, folder)
    if spec.target_path is not None:
        target = f"given: {spec.target_path}"
    elif cached:
        target = "cached"
    else:
        target = "not in the cache: it is fine-tuned first (the time estimate does not include this)"
    no_model = NO_DOWNLOAD if missing else NO_TARGET
    unknown = {}
    if pace is None:
        unknown["seconds"] = NO_SWEEP if cached or spec.target_path else f"{no_model} and {NO_SWEEP}"
    if memory is None:
        unknown["memory"] = no_model
    if folder is None:
        unknown["disk"] = no_model
    return _Needs(spec, folder, missing, target, pace, memory, source, unknown)


def _model_folder(spec: TrialSpec, trained: Path | None) -> Path | None:
    """A folder with a model of the target's size; None where none is on this machine."""
    hub_id = find_model(spec.model).hub_id
    for place in (spec.target_path, trained, spec.model_path, hub_id and cached_snapshot(hub_id)):
        if place and parameters_of(Path(place)):
            return Path(place)
    return None


def _memory(spec: TrialSpec, folder: Path | None) -> tuple[int | None, str]:
    """Bytes of weights, gradients and optimizer state; what activations take depends on the batches."""
    if folder is None:
        return None, ""
    disk = disk_of(spec, folder, models=1, running=1)
    trained = disk.checkpoint // FLOAT
    kept = trained * (_GRADIENTS + OPTIMIZER_INFO[spec.optimizer].buffers)
    return FLOAT * (
        parameters_of(folder) + kept
    ), "weights, gradients, optimizer state; what comes on top are activations and, on a CPU, the process"


def _told(spec: TrialSpec) -> dict[str, object]:
    """The settings a person looks for, and those that are not as usual."""
    first = ("model", "dataset", "method", "lr", "auto_lr", "seed", "epochs", "batch_size", "optimizer")
    row = spec.row()
    other = [name for name, item in FIELDS.items() if row.get(name) not in (item.default, None, "", ())]
    return {name: row[name] for name in dict.fromkeys((*first, *other)) if name in row and name != "target_key"}
