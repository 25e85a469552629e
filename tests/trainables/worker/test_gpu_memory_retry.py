"""A trial that runs out of GPU memory is retried with smaller passes. The allocator is simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.trainables.ray_worker import steps_of, worker_config
from trainables import device
from trainables.modality.language import Language
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.worker.ray_trainable import UnlearningTrainable

MakeWorker = Callable[..., UnlearningTrainable]
OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.fixture
def memory_for(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function after which training passes of more than ``examples`` fail, from pass number ``first`` on."""

    def limit(examples: int, first: int = 0) -> None:
        predict, seen = Language.predict, []

        def limited(model: Any, batch: Any) -> Any:
            if model.training:
                seen.append(len(batch.labels))
                if len(seen) > first and seen[-1] > examples:
                    raise torch.cuda.OutOfMemoryError(OUT_OF_MEMORY)
            return predict(model, batch)

        monkeypatch.setattr(Language, "predict", staticmethod(limited))

    return limit


@pytest.mark.parametrize("first", [0, 5], ids=["at once", "in the second epoch"])
def test_a_retried_trial_has_the_numbers_of_a_larger_gpu(
    make_worker: MakeWorker, memory_for: Any, make_spec: Any, workspace: Workspace, first: int
) -> None:
    spec = make_spec(method="ngdiff", batch_size=4, epochs=3, optimizer="sgd", lr=0.05)
    whole = list(UnlearningRun(spec, workspace))
    memory_for(2, first=first)
    results = steps_of(make_worker(worker_config(spec)))
    assert [result["report"].epoch for result in results] == [1.0, 2.0, 3.0]  # each once, in order
    outcome = results[-1]["outcome"]
    assert (outcome.status, outcome.execution.retried_with) == ("finished", "micro_batch 2, eval_batch_size 16")
    for result, report in zip(results, whole, strict=True):
        assert result["report"].losses["retain_loss"] == pytest.approx(report.losses["retain_loss"], rel=1e-4)
        assert result["report"].losses["forget_loss"] == pytest.approx(report.losses["forget_loss"], rel=1e-4)


def test_a_trial_that_needs_too_much_memory_fails_with_the_reason(
    make_worker: MakeWorker, memory_for: Any, make_spec: Any
) -> None:
    memory_for(0)
    [result] = steps_of(make_worker(worker_config(make_spec(method="ngdiff", batch_size=4))))
    assert result["outcome"].status == "failed"
    assert "out of memory" in result["outcome"].error
    assert result["outcome"].execution.retried_with == "micro_batch 1, gradient_checkpointing, eval_batch_size 4"


def test_every_epoch_reports_the_share_of_the_gpu_its_size_and_the_peak(
    make_worker: MakeWorker, make_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values are in every report, because a scheduler may stop the trial. The GPU is simulated."""
    monkeypatch.setattr(device, "peak_gpu_memory", lambda device: 10.0)
    monkeypatch.setattr(device, "total_gpu_memory", lambda device: 80.0)
    results = steps_of(make_worker({**worker_config(make_spec()), "gpus": 0.25}, gpus=1.0))
    for found in (*(result["report"] for result in results), results[-1]["outcome"]):
        execution = found.execution
        assert (execution.peak_gpu_gb, execution.gpu_share, execution.gpu_gb) == (10.0, 0.25, 80.0)


def test_a_share_of_a_gpu_is_enforced_and_a_whole_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", shares.append)
    for kind, gpus in (("cuda", 0.25), ("cuda", 1.0), ("cuda", 2.0), ("cpu", 0.25), ("cpu", 0.0)):
        device.limit_gpu_memory(kind, gpus)
    assert shares == [0.25]
