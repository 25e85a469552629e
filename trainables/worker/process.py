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
    from trainables.run.workspace import Workspace
    from trainables.scoring.base import Measurement

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
    model = workspace.modality.load_model(folder).to(workspace.device)
    evaluator = workspace.evaluator(batch_size=spec.eval_batch_size)
    evaluator.attack_settings = attack_settings(spec)
    return evaluator.scores(model, retain=target.retain, target=workspace.target_model).measure(spec.metrics)


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
    model = workspace.modality.load_model(folder).to(workspace.device)
    evaluator = workspace.evaluator(batch_size=spec.eval_batch_size)
    evaluator.attack_settings = attack_settings(spec)
    scores = evaluator.scores(model, retain=target.retain)
    has_retain_model = target.retain is not None
    selected = select_metrics(spec.metrics, target.data, retain_model=has_retain_model)
    names = tuple(name for name in selected if not METRICS[name].needs_target)
    metrics = {**scores.loss_metrics(), **(scores.measure(names).metrics if names else {})}
    worker = f"{socket.gethostname()}:{os.getpid()}"
    wall_seconds = time.time() - started_at
    return metrics, Execution(worker=worker, started_at=started_at, wall_seconds=wall_seconds)
