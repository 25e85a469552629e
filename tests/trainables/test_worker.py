"""The workspace that a worker keeps between trials, and the metrics it measures of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainables.ray_worker import GOALS, worker_config
from trainables import worker as worker_module
from trainables.ray_trainable import UnlearningTrainable
from trainables.target.target import Target
from trainables.worker import measure_checkpoint, worker_workspace

MakeWorker = Callable[..., UnlearningTrainable]


@pytest.mark.parametrize("lora_rank", [None, 2], ids=["whole model", "adapter"])
def test_a_checkpoint_has_the_metrics_that_the_run_would_have_measured_there(
    make_worker: MakeWorker, make_spec: Any, target: Target, tmp_path: Path, lora_rank: int | None
) -> None:
    spec = make_spec(method="ga", lr=1e-4, lora_rank=lora_rank, metrics_every=1)
    report = make_worker(worker_config(spec), GOALS).step()["report"]
    folder = tmp_path / "out" / "checkpoints" / "t1-epoch-1"
    measured = measure_checkpoint(target, replace(spec, metrics_every=None), folder, cpus=1.0, gpus=0.0).metrics
    assert measured == {name: report[name] for name in measured}
    assert {"verbmem", "utility"} <= measured.keys()


def test_a_process_keeps_one_workspace_for_all_its_trials(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_workspaces", {})
    first = worker_workspace(target, "cpu")
    assert worker_workspace(replace(target), "cpu") is first
    other = worker_workspace(replace(target, key="another"), "cpu")
    assert other is not first
    assert list(worker_module._workspaces.values()) == [other]
