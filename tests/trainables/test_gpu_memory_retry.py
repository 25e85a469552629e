"""A trial that runs out of a GPU's memory is run again in less of it, under an allocator that is simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainables.ray_trainable import UnlearningTrainable
from trainables.run import gpu_memory
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.target.target import Target

OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.fixture
def worker(target: Target, tmp_path: Path) -> Callable[[Any], UnlearningTrainable]:
    def make(spec: Any) -> UnlearningTrainable:
        made = UnlearningTrainable.__new__(UnlearningTrainable)
        config = {"spec": spec.to_dict(), "trial_id": "t1", "restore_from": None}
        made.setup(config, target=target, out=str(tmp_path / "out"), cpus=1.0, gpus=0.0)
        return made

    return make


@pytest.fixture
def memory_for(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Training passes of more than ``examples`` fail, from the ``first`` training pass on."""

    def limit(examples: int, first: int = 0) -> None:
        predict, seen = Workspace.predict, []

        def limited(self: Workspace, model: Any, batch: Any) -> Any:
            if model.training:
                seen.append(len(batch.labels))
                if len(seen) > first and seen[-1] > examples:
                    raise torch.cuda.OutOfMemoryError(OUT_OF_MEMORY)
            return predict(self, model, batch)

        monkeypatch.setattr(Workspace, "predict", limited)

    return limit


def results_of(worker: UnlearningTrainable) -> list[dict[str, Any]]:
    results = [worker.step()]
    while not results[-1]["done"]:
        results.append(worker.step())
    return results


@pytest.mark.parametrize("first", [0, 5], ids=["at once", "in the second epoch"])
def test_it_ends_with_the_numbers_of_a_larger_gpu(
    worker: Any, memory_for: Any, make_spec: Any, workspace: Workspace, first: int
) -> None:
    spec = make_spec(method="ngdiff", batch_size=4, epochs=3, optimizer="sgd", lr=0.05)
    whole = list(UnlearningRun(spec, workspace))
    memory_for(2, first=first)
    results = results_of(worker(spec))
    assert [result["report"]["epoch"] for result in results] == [1.0, 2.0, 3.0]  # each once, in order
    outcome = results[-1]["outcome"]
    assert (outcome["status"], outcome["retried_with"]) == ("finished", "micro_batch 2, eval_batch_size 16")
    for result, report in zip(results, whole, strict=True):
        assert result["report"]["retain_loss"] == pytest.approx(report.losses["retain_loss"], rel=1e-4)
        assert result["report"]["forget_loss"] == pytest.approx(report.losses["forget_loss"], rel=1e-4)


def test_where_nothing_helps_the_trial_fails_with_the_reason_and_the_worker_lives(
    worker: Any, memory_for: Any, make_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context():
        memory_for(0)
        made = worker(make_spec(method="ngdiff", batch_size=4))
        [result] = results_of(made)
    assert result["outcome"]["status"] == "failed"
    assert "out of memory" in result["outcome"]["error"]
    assert result["outcome"]["retried_with"] == "micro_batch 1, gradient_checkpointing, eval_batch_size 4"


def test_what_it_held_of_which_gpu_and_its_peak_are_known_after_every_epoch(
    target: Target, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So also of a trial that a scheduler stops; the GPU is none, and what it tells is made up."""
    monkeypatch.setattr(gpu_memory, "peak_gpu_memory", lambda device: 10.0)
    monkeypatch.setattr(gpu_memory, "gpu_size", lambda device: 80.0)
    made = UnlearningTrainable.__new__(UnlearningTrainable)
    config = {"spec": make_spec().to_dict(), "trial_id": "t1", "restore_from": None, "gpus": 0.25}
    made.setup(config, target=target, out=str(tmp_path / "out"), cpus=1.0, gpus=1.0)
    results = results_of(made)
    known = {"peak_gpu_gb": 10.0, "gpu_share": 0.25, "gpu_gb": 80.0}
    for told in (*(result["report"] for result in results), results[-1]["outcome"]):
        assert {name: told[name] for name in known} == known


def test_a_trial_that_fits_says_nothing_of_it(worker: Any, make_spec: Any) -> None:
    outcome = results_of(worker(make_spec()))[-1]["outcome"]
    assert "retried_with" not in outcome
    assert "peak_gpu_gb" not in outcome  # there is none
