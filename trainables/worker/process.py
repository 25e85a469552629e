"""Keep the :class:`Workspace` of a worker process between trials, so that later trials start in milliseconds.

Ray may start several actors in a process, one after another. All of them use the workspace of the process. The driver
imports this module, so torch is imported inside functions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainables import plugins
from trainables.device import default_device
from trainables.spec import TrialSpec
from trainables.storage import Storage
from trainables.target.shared import local_target
from trainables.target.target import Target, attack_settings

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
