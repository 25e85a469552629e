"""Compute the plan that ``--dry-run`` prints."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from search_spaces.common.durable import free_bytes
from search_spaces.common.messages import counted
from search_spaces.space import Space
from sweeper.checks.attacks import PlannedAttacks
from sweeper.checks.criterion import criterion_text
from sweeper.checks.decision import Decision, planned_decision
from sweeper.checks.disk import FLOAT, Disk, count_parameters, estimate_sweep_disk
from sweeper.checks.hub import Download, downloads
from sweeper.checks.trial_time import TrialPace, estimate_pace
from sweeper.execution.cluster import ray_cluster
from sweeper.execution.placement import slots_here
from sweeper.search.confirmation import PlannedRuns
from sweeper.settings.names import RUN, STUDY
from sweeper.settings.resources import Resources, local_gpu_count
from sweeper.settings.sweep_settings import LAST, SweepSettings
from trainables.models.hub_cache import cached_snapshot
from trainables.models.registry import find_model
from trainables.question_sets import question_sets
from trainables.spec import FIELDS, TrialSpec
from trainables.target.cache import cache_folder, is_trained
from trainables.target.notes import data_notes
from trainables.target.target import target_recipe, target_spec_of

NO_TARGET = "the target is not fine-tuned yet"
NO_DOWNLOAD = "the model or the data are not downloaded yet"
NO_SWEEP = "there is no previous sweep with similar trials"
_GRADIENTS = 2
"""The maximum number of gradients in memory: one for the forget loss and one for the retain loss."""
_KEY_FIELDS = ("model", "dataset", "method", "lr", "auto_lr", "seed", "epochs", "batch_size", "optimizer")
"""The settings that every plan shows. A plan shows other settings only if they differ from their defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a command. Its fields are the keys of the JSON output of ``--dry-run``.

    Attributes:
        settings: maps each setting to the value that all trials share, or to a text with the searched range.
        trials: the number of trials that can still run.
        asked: the requested total number of trials.
        at_once: the number of concurrent trials.
        shares_gpus: whether the number of trials per GPU depends on measured memory. ``at_once`` then changes during
            the sweep.
        seconds: the estimated duration of the command if no trial ends early.
        memory: the estimated memory per trial in bytes, without activations.
        unknown: maps the name of each field that cannot be estimated to the reason.
        free: the free disk space in bytes.
        notes: notes about the data and the search space, such as the number of answers that are cut.
        decision: what a learning-rate study can decide; None for other commands.
        attacks: the attacks after the search; None if there are none.
        confirm: the fresh runs after the search; None if there are none.
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
    pace: TrialPace | None
    memory: int | None
    disk: Disk | None
    unknown: Mapping[str, str]
    free: int
    notes: tuple[str, ...] = ()
    decision: Decision | None = None
    confirm: PlannedRuns | None = None
    attacks: PlannedAttacks | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON output of ``--dry-run``."""
        return asdict(self) | {"disk_bytes": self.disk.bytes if self.disk else None}


def plan_of_sweep(settings: SweepSettings, out: Path | None, *, ended: int = 0, epochs_spent: float = 0.0) -> Plan:
    """Return the plan for a sweep.

    Args:
        out: the folder of the sweep. If None, no model is saved.
        ended: the number of trials that have ended. These trials do not run again.
        epochs_spent: the number of epochs that the sweep has already used of its epoch budget.
    """
    base = settings.base
    resources = settings.resources
    most = settings.trials
    if (configurations := settings.space.configurations()) is not None:
        most = min(most, (len(configurations) + len(settings.extension)) * settings.seeds)
    remaining = max(0, most - ended)
    slots, place = slots_of(settings)
    max_concurrent = settings.max_concurrent or slots
    at_once = max(1, min(max_concurrent, slots, remaining))
    gpus = settings.gpus_per_trial if settings.shares_gpus else resources.gpus
    pace = estimate_pace(base, _previous_sweeps(settings, out), gpus=gpus)
    epochs = float(base.epochs)
    if settings.epoch_budget is not None and remaining:
        epochs = min(epochs, max(0.0, settings.epoch_budget - epochs_spent) / remaining)
    seconds = None
    if pace is not None:
        budget = math.inf if settings.time_budget_seconds is None else settings.time_budget_seconds
        seconds = min(budget, pace.trial_seconds(epochs) * remaining / at_once)
    state_count = remaining if settings.pauses_trials else at_once
    model_fields = _model_fields(settings, trials=remaining, running=state_count)
    if configurations is not None and most < settings.trials:
        size = counted(len(configurations), "configuration")
        model_fields["notes"] += (f"the search space has {size}, so at most {most} of {settings.trials} trials run",)
    if pace is None:
        model_fields["unknown"]["seconds"] = NO_SWEEP
    if out is None:
        model_fields["disk"] = None
        model_fields["unknown"].pop("disk", None)
    return Plan(
        what=settings.kind,
        out=str(out or ""),
        settings=_plan_settings(settings),
        trials=remaining,
        asked=settings.trials,
        at_once=at_once,
        resources=resources,
        shares_gpus=settings.shares_gpus,
        place=place,
        seconds=seconds,
        pace=pace,
        free=free_bytes(out or Path()),
        decision=planned_decision(settings) if settings.kind == STUDY else None,
        confirm=PlannedRuns.of(settings),
        attacks=PlannedAttacks.of(settings, pace, slots=max_concurrent),
        **model_fields,
    )


def plan_of_run(spec: TrialSpec, out: Path | None) -> Plan:
    gpus = 1.0 if local_gpu_count() else 0.0
    settings = SweepSettings(
        name="run", kind=RUN, base=spec, space=Space(), trials=1, gpus_per_trial=gpus, candidates=LAST
    )
    return plan_of_sweep(settings, out)


def slots_of(settings: SweepSettings) -> tuple[int, str]:
    """Return the maximum number of concurrent trials, and where they run, such as the text ``in this process``."""
    if settings.kind == RUN:
        return 1, "in this process"
    if settings.address is None:
        return slots_here(settings.resources), f"on this machine ({counted(os.cpu_count() or 1, 'CPU')})"
    with ray_cluster(settings.address, resources=settings.resources) as slots:
        return slots, f"on the Ray cluster at {settings.address}"


def _previous_sweeps(settings: SweepSettings, out: Path | None) -> list[Path]:
    """Return the folders in which :func:`estimate_pace` looks for similar trials, in order of preference."""
    folder = out or Path("runs") / settings.name
    tables = [*folder.parent.glob("*/trials.csv"), *Path("runs").glob("*/trials.csv")]
    newest_first = sorted(tables, key=lambda path: path.stat().st_mtime, reverse=True)
    named_sweeps = [Path(name) for name in (*settings.reuse, *settings.warm_start)]
    return [folder, *named_sweeps, *(path.parent for path in newest_first)]


def _model_fields(settings: SweepSettings, *, trials: int, running: int) -> dict[str, Any]:
    spec = settings.base
    missing = downloads(spec)
    entry = None if missing or spec.target_path else cache_folder() / "targets" / target_spec_of(spec).trained_key
    is_cached = entry is not None and is_trained(entry)
    if spec.target_path is not None:
        target = f"given: {spec.target_path}"
    elif is_cached:
        target = "cached"
    else:
        target = f"not in the cache, so it is fine-tuned first: {_recipe_text(spec)}; the time estimate excludes this"
    has_data = not any(item.kind == "dataset" for item in missing)
    notes = tuple(data_notes(target_spec_of(spec))) if has_data else ()
    fields: dict[str, Any] = {"downloads": missing, "target": target, "notes": notes}
    folder = _model_folder(spec, entry if is_cached else None)
    if folder is None:
        reason = NO_DOWNLOAD if missing else NO_TARGET
        return fields | {"memory": None, "disk": None, "unknown": {"memory": reason, "disk": reason}}
    disk = estimate_sweep_disk(settings, folder, trials=trials, running=running)
    # The memory estimate excludes activations.
    training_bytes = disk.checkpoint * (_GRADIENTS - 1) + disk.state
    return fields | {"memory": FLOAT * count_parameters(folder) + training_bytes, "disk": disk, "unknown": {}}


def _recipe_text(spec: TrialSpec) -> str:
    recipe = target_recipe(spec)
    epochs = counted(recipe.epochs, "epoch")
    if recipe.stop_when_memorised:
        epochs = f"at most {epochs}, until the data are memorised"
    trained = "all weights" if recipe.lora_rank is None else f"LoRA of rank {recipe.lora_rank}"
    return f"{epochs}, lr {recipe.lr:g}, batch size {recipe.batch_size}, {trained}"


def _model_folder(spec: TrialSpec, entry: Path | None) -> Path | None:
    """Return a local folder with the weights of the target or its base model, or None if there is no such folder."""
    hub_id = find_model(spec.model).hub_id
    snapshot = None if hub_id is None else cached_snapshot(hub_id)
    for folder in (spec.target_path, entry, spec.model_path, snapshot):
        if folder and count_parameters(Path(folder)):
            return Path(folder)
    return None


def _plan_settings(settings: SweepSettings) -> dict[str, object]:
    row = settings.base.row()
    changed_fields = [name for name, item in FIELDS.items() if row.get(name) not in (item.default, None, "", ())]
    names = dict.fromkeys([*_KEY_FIELDS, *changed_fields])
    values = {name: row[name] for name in names if name in row and name != "target_key"}
    if own_sets := question_sets():
        values["questions"] = ", ".join(f"{name} ({counted(len(items), 'row')})" for name, items in own_sets.items())
    if settings.kind == RUN:
        return values | dict(settings.base.options)
    values["criterion"] = criterion_text(settings)
    ranges = settings.space.format_values(grid=settings.sampler == "grid")
    search = {name: getattr(settings, name) for name in ("sampler", "seeds", "scheduler", "objectives", "candidates")}
    return values | {name: str(value) for name, value in ranges.items()} | search
