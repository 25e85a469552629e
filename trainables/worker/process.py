"""Keep the :class:`Workspace` of a worker process between trials, so that later trials start in milliseconds.

Ray may start several actors in a process, one after another. All of them use the workspace of the process. The driver
imports this module, so torch is imported inside functions.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trainables import plugins
from trainables.device import default_device
from trainables.metrics.registry import METRICS
from trainables.run.reports import Execution
from trainables.scoring.base import select_metrics
from trainables.spec import TrialSpec
from trainables.storage import Storage
from trainables.target.shared import local_target
from trainables.target.target import Target, attack_settings, target_spec_of

if TYPE_CHECKING:
    from trainables.models.merging import Recipe
    from trainables.run.workspace import Workspace
    from trainables.scoring.base import Measurement, RetainValues, Scores

plugins.active()  # the objects that this process receives may use classes of plug-ins
_workspaces: dict[tuple[str, str], Workspace] = {}


def worker_workspace(target: Target, device: str) -> Workspace:
    """Return this process's workspace for a target. A workspace for another target is discarded."""
    from trainables.run.workspace import Workspace

    key = (target.key, device)
    if key not in _workspaces:
        _workspaces.clear()
        _workspaces[key] = Workspace(target, device=device)
    return _workspaces[key]


def measure_checkpoint(
    target: Target, spec: TrialSpec, folder: Path, *, cpus: float, gpus: float, storage: Storage | None = None
) -> Measurement:
    """Measure the metrics ``spec.metrics`` of a checkpoint.

    The values are bit-identical to those that the run itself measures.

    Args:
        folder: the folder of the checkpoint or, if ``storage`` is given, its key in the storage.

    Raises:
        LoadError: the checkpoint cannot be loaded.
        StorageError: the checkpoint cannot be downloaded.
    """
    if storage is not None:
        with tempfile.TemporaryDirectory(prefix="sweeper-") as scratch:
            checkpoint = Path(scratch) / "checkpoint"
            storage.get(str(folder), checkpoint)
            return measure_checkpoint(local_target(target, storage), spec, checkpoint, cpus=cpus, gpus=gpus)
    import torch

    torch.set_num_threads(max(1, int(cpus)))
    workspace = worker_workspace(target, default_device(gpus))
    return _scores(workspace, spec, folder, retain=target.retain).measure(spec.metrics)


def _scores(workspace: Workspace, spec: TrialSpec, folder: Path, *, retain: RetainValues | None) -> Scores:
    """Return the scores of a stored model, which are not measured yet."""
    model = workspace.modality.load_model(folder).to(workspace.device)
    evaluator = workspace.evaluator(batch_size=spec.eval_batch_size)
    evaluator.attack_settings = attack_settings(spec)
    return evaluator.scores(model, retain=retain, target=workspace.target_model)


def measure_merged_model(
    target: Target, spec: TrialSpec, recipe: Recipe, *, cpus: float, gpus: float, storage: Storage | None = None
) -> tuple[Mapping[str, float], Measurement, Execution]:
    """Merge models, write the merged model to ``recipe.folder``, and return its losses and metrics.

    Raises:
        LoadError: a model cannot be loaded, or the models do not have the same tensors.
        StorageError: a model cannot be downloaded or uploaded.
    """
    import torch

    from trainables.models.merging import Models, write_merged_model

    torch.set_num_threads(max(1, int(cpus)))
    started_at = time.time()
    local = local_target(target, storage)
    workspace = worker_workspace(local, default_device(gpus))
    modality = workspace.modality
    with tempfile.TemporaryDirectory(prefix="sweeper-") as scratch:

        def fetched(key: str) -> Path:
            if storage is None:
                return Path(key)
            storage.get(key, Path(scratch) / key)
            return Path(scratch) / key

        merged = Path(recipe.folder) if storage is None else Path(scratch) / recipe.folder
        write_merged_model(
            merged,
            Models(
                Path(local.path),
                [fetched(key) for key in recipe.unlearned],
                list(map(Path, recipe.finetuned)),
                None if recipe.checkpoint is None else Path(recipe.checkpoint),
            ),
            rule=recipe.rule,
            scale=recipe.scale,
            load=modality.load_model,
            processor=modality.load_processor(Path(local.path)),
        )
        if storage is not None:
            storage.put(merged, recipe.folder)
        scores = _scores(workspace, spec, merged, retain=target.retain)
    losses = scores.loss_metrics()
    measurement = scores.measure(spec.metrics)
    return losses, measurement, _execution(started_at)


def measure_finetuned_model(
    target: Target, spec: TrialSpec, *, saw: bool, cpus: float, gpus: float, storage: Storage | None = None
) -> tuple[Mapping[str, float], Execution]:
    """Fine-tune the base model as the target was fine-tuned, and measure its losses and metrics.

    The model is kept in the cache of targets, so the next call with the same spec does not train it again. Metrics that
    compare a model with the target are left out, because they say from which weights a model started.

    Args:
        target: the target of the sweep. Its data are evaluated, also if ``spec`` has another ``target_seed``.
        saw: whether the model is fine-tuned on the whole data, or on the retain set only.

    Raises:
        DataError, LoadError, TargetError: the model cannot be fine-tuned; the message is for the user.
    """
    import torch

    from trainables.target.prepare import Preparation

    torch.set_num_threads(max(1, int(cpus)))
    started_at = time.time()
    device = default_device(gpus)
    preparation = Preparation(spec=target_spec_of(spec), device=device)
    folder = preparation.model()[0] if saw else preparation.retain_model()
    workspace = worker_workspace(local_target(target, storage), device)
    scores = _scores(workspace, spec, folder, retain=target.retain)
    has_retain_model = target.retain is not None
    selected = select_metrics(spec.metrics, target.data, retain_model=has_retain_model)
    names = tuple(name for name in selected if not METRICS[name].needs_target)
    metrics = {**scores.loss_metrics(), **(scores.measure(names).metrics if names else {})}
    return metrics, _execution(started_at)


def _execution(started_at: float) -> Execution:
    """Return where and since when the task of this process runs."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return Execution(worker=worker, started_at=started_at, wall_seconds=time.time() - started_at)
