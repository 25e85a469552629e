"""Count how often a training step would make the host wait for a GPU.

The tests run on a CPU and count the operations that wait on a GPU: reading a scalar, and indexing with a mask.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.trainables.conftest import Start
from trainables.run.run import UnlearningRun

STEPS = 4
READ = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::unique"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}
HERE = "trainables"


class Waits(TorchDispatchMode):
    """Counts the operations for which the host would wait, by the calling package."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        masked = name in INDEXED and any(index is not None and index.dtype is torch.bool for index in args[1])
        if name in READ or masked:
            self.count()
        return func(*args, **(kwargs or {}))

    def count(self) -> None:
        """Count a wait for the innermost of the two packages on the stack."""
        frame = sys._getframe(1)
        while (package := _package(frame)) is None:
            frame = frame.f_back  # type: ignore[assignment]
        self.found[package] += 1


def _package(frame: Any) -> str | None:
    parts = Path(frame.f_code.co_filename).parts
    return next((name for name in (HERE, "transformers") if name in parts and "tests" not in parts), None)


def waits_of(run: UnlearningRun, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the waits in the steps of a run, without its evaluations."""
    waits, read = Waits(), Tensor.tolist

    def tolist(tensor: Tensor) -> Any:
        waits.count()  # on a CPU, the dispatcher does not see this read
        return read(tensor)

    monkeypatch.setattr(Tensor, "tolist", tolist)
    monkeypatch.setattr(run, "_is_evaluated", lambda epoch: False)
    monkeypatch.setattr(run, "_measure", dict)
    with waits:
        for _ in run:
            pass
    assert run.step == STEPS
    return waits.found


@pytest.mark.parametrize(
    ("method", "own"),
    [("gdiff", 2), ("ga", 2), ("dpo", 2), ("ngdiff", 3)],  # losses, norm of the gradient, and the inner products
)
def test_a_step_waits_for_its_losses_and_norms_only(
    method: str, own: int, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(method=method, max_steps=STEPS, epochs=2)
    passes: list[None] = []
    run.model.register_forward_hook(lambda *_: passes.append(None))

    found = waits_of(run, monkeypatch)

    assert found[HERE] == own * STEPS
    # transformers waits at most once per pass, to check whether sequences are packed.
    assert len(passes) >= STEPS
    assert found["transformers"] <= len(passes)
