"""A workspace gives every trial the target's weights, whatever the previous trial changed."""

from __future__ import annotations

from typing import Any

import pytest
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


@pytest.mark.parametrize("lora_rank", [None, 2])
def test_the_target_is_lent_and_the_models_own_weights_come_back(target: Target, lora_rank: int | None) -> None:
    workspace = Workspace(target, device="cpu")
    model = workspace.model_for(lora_rank=lora_rank)
    ids = torch.arange(9)[None]
    with torch.no_grad():
        before = model(ids).logits
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.1
        changed = model(ids).logits
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with workspace.target_model() as lent:
        assert torch.equal(lent(ids).logits, before)
    assert not torch.equal(before, changed)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
