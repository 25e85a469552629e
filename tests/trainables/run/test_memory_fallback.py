"""The settings tried when GPU memory does not suffice, and a trial's share of a GPU."""

from __future__ import annotations

import pytest
import torch

from trainables.run.gpu_memory import limit_to_share
from trainables.run.memory_fallback import MemoryFallback
from trainables.spec import TrialSpec


def steps(memory: MemoryFallback, batch_size: int, **unused: object) -> list[str]:
    found = []
    while (next_one := memory.next(batch_size, **unused)) is not None:  # type: ignore[arg-type]
        memory = next_one
        found.append(str(memory))
    return found


def test_passes_halve_down_to_one_example_and_then_activations_are_recomputed() -> None:
    assert steps(MemoryFallback.of(TrialSpec(batch_size=6, eval_batch_size=32)), 6) == [
        "micro_batch 3, eval_batch_size 16",
        "micro_batch 2, eval_batch_size 8",
        "micro_batch 1, eval_batch_size 4",
        "micro_batch 1, gradient_checkpointing, eval_batch_size 2",
    ]


def test_a_share_of_a_gpu_is_enforced_and_a_whole_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", shares.append)
    for device, gpus in (("cuda", 0.25), ("cuda", 1.0), ("cuda", 2.0), ("cpu", 0.25), ("cpu", 0.0)):
        limit_to_share(device, gpus)
    assert shares == [0.25]
