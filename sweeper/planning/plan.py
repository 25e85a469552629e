"""What a command would do, and what that would take: for ``--dry-run``, which begins nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.words import duration
from search_spaces.durable import free_bytes
from search_spaces.messages import counted, size
from sweeper.disk import FLOAT, Disk, disk_of, parameters_of
from sweeper.placement import Resources, gpus_here, ray_cluster, slots_here
from sweeper.planning.downloads import Download, downloads
from sweeper.planning.pace import TrialPace, earlier_pace, measured_pace
from sweeper.scheduling.schedulers import NONE
from sweeper.settings import SweepSettings
from trainables.models.hub_cache import cached_snapshot
from trainables.models.registry import find_model
from trainables.optimizers import OPTIMIZER_INFO
from trainables.spec import FIELDS, TrialSpec
from trainables.target.cache import cache_folder
from trainables.target.problem import problem_of

SMALL = 20_000_000
"""Parameters of a model of which one epoch is run where no earlier sweep says how long it takes."""
_GRADIENTS = 2
"""At most: of the forget and of the retain loss; what a weighting makes of them takes the place of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``trials`` are left to run, ``at_once`` side by side. ``settings`` are those of all trials, and what is searched.

    With ``shares_gpus`` that is before a share has been measured. What is not known before the target or an earlier
    sweep is there is None: ``seconds`` in all (``at_most`` without what a scheduler saves), ``memory`` bytes of a
    trial, ``disk``.
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
    console: Console,
) -> Plan:
    """Of a sweep in ``out`` of whose trials so many have ``ended``; ``earlier`` are folders of other sweeps.

    ``epochs_spent`` of its budget are gone.

    Raises:
        PlacementError: trials cannot be placed, or no cluster answers.
        DataError, TargetError: there is no target, with a plain sentence.
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
    base = _needs(settings.base, earlier=earlier, scheduler=settings.scheduler, gpus=gpus, console=console)
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
        | {name: str(value) for name, value in settings.space.in_words(grid=settings.sampler == "grid").items()}
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
        free=free_bytes(out),
    )


def plan_of_run(spec: TrialSpec, out: Path | None, *, earlier: Sequence[Path] = (), console: Console) -> Plan:
    """Of one run in this process; with ``out`` None its model is not kept."""
    gpus = 1.0 if gpus_here() else 0.0
    base = _needs(spec, earlier=earlier, scheduler=NONE, gpus=gpus, console=console)
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
        free=free_bytes(out or Path()),
    )


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a trial like ``spec`` takes; ``folder`` has its model, or one of the same size."""

    spec: TrialSpec
    folder: Path | None
    downloads: tuple[Download, ...]
    target: str
    pace: TrialPace | None
    memory: int | None
    memory_source: str

    def disk(self, *, models: int, running: int) -> Disk | None:
        return None if self.folder is None else disk_of(self.spec, self.folder, models=models, running=running)


def _needs(spec: TrialSpec, *, earlier: Sequence[Path], scheduler: str, gpus: float | str, console: Console) -> _Needs:
    missing = downloads(spec)
    trained = None if missing or spec.target_path else cache_folder() / "targets" / problem_of(spec).trained_key
    has_target = spec.target_path is not None or (trained is not None and trained.is_dir())
    pace = earlier_pace(spec, earlier, scheduler=scheduler, gpus=gpus)
    folder = _model_folder(spec, trained if has_target else None)
    small = folder is not None and 0 < parameters_of(folder) <= SMALL
    made_here = find_model(spec.model).hub_id is None and not (spec.model_path or spec.target_path)
    if pace is None and not missing and (made_here or (has_target and small)):
        pace = measured_pace(spec, console=console)
        has_target = has_target or (trained is not None and trained.is_dir())
        folder = _model_folder(spec, trained)
    memory, source = (pace.memory, "measured") if pace is not None and pace.memory else _memory(spec, folder)
    said = "it is there" if has_target else "it is fine-tuned first, which the times here leave out"
    return _Needs(spec, folder, missing, said, pace, memory, source)


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


def words(plan: Plan) -> list[str]:
    """For a person, a line each."""
    cpus, gpus = plan.resources.cpus, plan.resources.gpus
    of = f" of {plan.asked}" if plan.trials != plan.asked else ""
    lines = {
        "trials": f"{plan.trials}{of}",
        "placement": f"{plan.at_once} at once {plan.place}; a trial takes {counted(cpus, 'CPU')}"
        + (" and a share of a GPU, auto: first trial of each class measures" if plan.shares_gpus else "")
        + (f" and {counted(gpus, 'GPU')}" if gpus and not plan.shares_gpus else ""),
        "downloads": "; ".join(item.words() for item in plan.downloads) or "none",
        "target": plan.target,
        "time": _time(plan),
        "memory": "not known before the model is there"
        if plan.memory is None
        else f"about {size(plan.memory)} a trial ({plan.memory_source})",
        "disk": "nothing is kept"
        if not plan.out
        else "not known before the model is there"
        if plan.disk is None
        else plan.disk.words(Path(plan.out), free=plan.free).removeprefix("disk: "),
    }
    settings = {name.replace("_", " "): value for name, value in plan.settings.items()}
    shown = {"out": plan.out or "none, so the model is not kept", **settings, **lines}
    width = max(map(len, shown))
    return [f"{plan.what}, as it would run; nothing is begun", *(f"  {n:<{width}}  {v}" for n, v in shown.items())]


def _time(plan: Plan) -> str:
    if plan.pace is None or plan.seconds is None or plan.at_most is None:
        return "not known: no earlier sweep here is like it; a sweep of --trials 1 --epochs 1 is enough"
    about = f"about {duration(plan.seconds)}"
    if plan.pace.share is not None and plan.seconds < plan.at_most:
        about += f", {duration(plan.at_most)} if no trial ends early"
    return f"{about}; by {plan.pace.source}"
