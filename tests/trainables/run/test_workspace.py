"""A workspace gives every trial the target's weights, whatever the previous trial did to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PhiForCausalLM

from tests.trainables.runs import digest
from trainables.data.examples import UnlearningData
from trainables.models.checkpoints import save_model
from trainables.run.workspace import Workspace
from trainables.target.target import Target
from trainables.text.tokens import encode_examples


def _ruin(model: Any) -> None:
    """Leave NaN weights, gradients and frozen parts, as a diverged trial does."""
    for parameter in model.parameters():
        parameter.data.fill_(float("nan"))
        parameter.grad = torch.ones_like(parameter)
        parameter.requires_grad_(False)


def test_every_trial_starts_from_the_weights_of_the_target(workspace: Workspace, known_network: PhiForCausalLM) -> None:
    expected = digest(known_network)
    for _ in range(3):
        model = workspace.model_for()
        assert digest(model) == expected
        assert model.training
        assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
        _ruin(model)


def test_after_a_lora_trial_the_whole_model_is_back(
    workspace: Workspace, known_network: PhiForCausalLM, tmp_path: Path
) -> None:
    for rank in (2, 3):
        _ruin(workspace.model_for(lora_rank=rank))
    model = workspace.model_for()
    assert digest(model) == digest(known_network)
    assert all(parameter.requires_grad for parameter in model.parameters())
    save_model(model, workspace.tokenizer, tmp_path / "whole")
    assert not list((tmp_path / "whole").glob("adapter*"))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "whole")
    assert digest(loaded) == digest(known_network)


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


def test_the_data_are_tokenised_once_per_length(
    workspace: Workspace, tiny_data: UnlearningData, tokenizer: Any
) -> None:
    forget, retain = workspace.train_sets(max_length=64)
    assert forget == encode_examples(tokenizer, tiny_data.forget, max_length=64)
    assert retain == encode_examples(tokenizer, tiny_data.retain, max_length=64)
    assert workspace.train_sets(max_length=64) is workspace.train_sets(max_length=64)
    longest = max(map(len, forget))
    assert max(map(len, workspace.train_sets(max_length=longest - 1)[0])) == longest - 1
    evaluator = workspace.evaluator(max_length=64, batch_size=32)
    assert workspace.evaluator(max_length=64, batch_size=32) is evaluator
    assert workspace.evaluator(max_length=64, batch_size=3) is not evaluator
