"""A workspace gives every trial the target's weights, whatever the previous trial changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from trainables.run.workspace import Workspace
from trainables.target.target import Target


@pytest.mark.parametrize("rank", [None, 2])
def test_gradient_checkpointing_changes_no_gradient_and_is_switched_off_again(
    workspace: Workspace, rank: int | None
) -> None:
    ids = torch.arange(20)[None, :]

    def gradients(checkpointing: bool) -> list[Tensor]:
        model = workspace.model_for(gradient_checkpointing=checkpointing, lora_rank=rank)
        assert any(getattr(part, "gradient_checkpointing", False) for part in model.modules()) is checkpointing
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        assert len(found) == sum(parameter.requires_grad for parameter in model.parameters())
        return found

    without, with_checkpoints, without_again = gradients(False), gradients(True), gradients(False)
    for plain, saved, again in zip(without, with_checkpoints, without_again, strict=True):
        torch.testing.assert_close(saved, plain)
        assert torch.equal(again, plain)


def test_checkpointing_under_an_adapter_leaves_no_hooks_to_later_trials(target: Target) -> None:
    workspace = Workspace(target, device="cpu")

    def hooks_and_gradients(**changes: Any) -> tuple[int, bool]:
        embeddings = workspace.model_for(**changes).get_input_embeddings()
        return len(embeddings._forward_hooks), embeddings(torch.arange(3)).requires_grad

    first, *later = [hooks_and_gradients(lora_rank=2, gradient_checkpointing=True) for _ in range(3)]
    assert first[1]
    assert later == [first, first]
    assert hooks_and_gradients(lora_rank=2) == (0, False)
    assert hooks_and_gradients() == (0, True)
