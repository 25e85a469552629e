"""One unlearning run in this process, for benchmarks of quality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from trainables.run.reports import EpochReport
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target
from trainables.worker.process import worker_workspace


def unlearn(
    spec: TrialSpec, prepare: Callable[[UnlearningRun], None] | None = None
) -> tuple[UnlearningRun, EpochReport, Workspace]:
    """Run a trial on the CPU with one thread. Return the run, its last report, and the workspace with the target.

    ``prepare`` is called with the run before the first step, and may change the run.
    """
    torch.set_num_threads(1)
    target = prepare_target(spec)
    workspace = worker_workspace(target, "cpu")
    run = UnlearningRun(replace(spec, target_key=target.key), workspace)
    if prepare is not None:
        prepare(run)
    return run, list(run)[-1], workspace
