"""A workspace gives every trial the target's weights, whatever the previous trial changed."""

from __future__ import annotations

from typing import Any

import torch

from trainables.run.workspace import Workspace
from trainables.target.target import Target


def test_checkpointing_under_an_adapter_leaves_no_hooks_to_later_trials(target: Target) -> None:
    workspace = Workspace(target, device="cpu")

    def hooks_and_gradients(**changes: Any) -> tuple[int, bool, bool]:
        model = workspace.model_for(**changes)
        embeddings = model.get_input_embeddings()
        checkpointing = any(getattr(part, "gradient_checkpointing", False) for part in model.modules())
        return len(embeddings._forward_hooks), embeddings(torch.arange(3)).requires_grad, checkpointing

    first, *later = [hooks_and_gradients(lora_rank=2, gradient_checkpointing=True) for _ in range(3)]
    assert first[1:] == (True, True)
    assert later == [first, first]
    assert hooks_and_gradients(lora_rank=2) == (0, False, False)
    assert hooks_and_gradients() == (0, True, False)
