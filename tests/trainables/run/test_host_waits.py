"""Count how often a training step would make the host wait for a GPU.

The tests run on a CPU and count the operations that wait on a GPU: reading a scalar, and indexing with a mask.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, bool
from torch.utils._python_dispatch import TorchDispatchMode

from tests.trainables.conftest import Start

STEPS = 4
READ = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::unique"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_"}


class Waits(TorchDispatchMode):
    """Counts the operations of this project's code for which the host would wait. Those of transformers are left out,
    which waits at most once per pass, to check whether sequences are packed."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        masked = name in INDEXED and any(index is not None and index.dtype is bool for index in args[1])
        if name in READ or masked:
            self.add()
        return func(*args, **(kwargs or {}))

    def add(self) -> None:
        """Count a wait if the innermost of the two packages on the stack is this project."""
        frame: Any = sys._getframe(1)
        parts = Path(frame.f_code.co_filename).parts
        while "tests" in parts or not {"trainables", "transformers"} & {*parts}:
            frame = frame.f_back
            parts = Path(frame.f_code.co_filename).parts
        self.count += "trainables" in parts


@pytest.mark.parametrize(
    ("method", "waits_per_step"),
    [("gdiff", 2), ("ga", 2), ("dpo", 2), ("ngdiff", 3)],  # losses, norm of the gradient, and the inner products
)
def test_a_step_waits_for_its_losses_and_norms_only(
    method: str, waits_per_step: int, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(method=method, max_steps=STEPS, epochs=2)
    waits, read = Waits(), Tensor.tolist

    def tolist(tensor: Tensor) -> Any:
        waits.add()  # on a CPU, the dispatcher does not see this read
        return read(tensor)

    monkeypatch.setattr(Tensor, "tolist", tolist)
    monkeypatch.setattr(run, "_is_evaluated", lambda epoch: False)
    monkeypatch.setattr(run, "_measure", dict)
    with waits:
        list(run)
    assert run.step == STEPS
    assert waits.count == waits_per_step * STEPS
