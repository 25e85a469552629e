"""RMU's hidden states are those that the model reports."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    ResNetConfig,
    ResNetForImageClassification,
)

from trainables.models.adapters import add_adapter
from trainables.text.hidden import block_matrices, block_output, decoder_blocks, unit_direction
from trainables.text.tokens import Tokens, collate


def test_the_direction_is_a_unit_vector_of_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = unit_direction(64, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert float(first.norm()) == pytest.approx(1.0, rel=1e-6)
    assert torch.equal(unit_direction(64, seed=3), first)
    assert not torch.equal(unit_direction(64, seed=4), first)


SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}
GATED = {"gate_proj", "up_proj", "down_proj"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("llama", GATED),
        ("qwen2", GATED),
        ("gpt2", {"c_fc", "c_proj"}),
        ("gpt_neox", {"dense_h_to_4h", "dense_4h_to_h"}),
        ("falcon", {"dense_h_to_4h", "dense_4h_to_h"}),
        ("opt", {"fc1", "fc2"}),
        ("phi", {"fc1", "fc2"}),
    ],
)
def test_the_matrices_of_the_blocks_are_those_of_the_mlps(kind: str, expected: set[str]) -> None:
    model = _small(kind)
    matrices = set(map(id, block_matrices(model)))
    names = [name.split(".") for name, parameter in model.named_parameters() if id(parameter) in matrices]
    assert {name[-2] for name in names} == expected
    assert len(names) == 2 * len(expected)
    assert kind == "opt" or {name[-3] for name in names} == {"mlp"}


def test_a_mixture_of_experts_has_no_matrices_that_are_found() -> None:
    with pytest.raises(ValueError, match="MixtralForCausalLM have none"):
        block_matrices(_small("mixtral"))


def _small(kind: str) -> Any:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**SMALL))


@pytest.mark.parametrize("kind", ["phi", "gpt2", "phi with LoRA"])
def test_the_output_of_a_block_is_that_reported_by_the_model(make_network: Any, kind: str) -> None:
    """``hidden_states[0]`` are the embeddings; the last entry has the final norm applied, so it is left out."""
    if kind == "gpt2":
        config = GPT2Config(vocab_size=300, n_embd=32, n_layer=3, n_head=2, n_positions=64)
        model = GPT2LMHeadModel(config).eval()
    else:
        model = make_network(num_hidden_layers=3).eval()
        model = add_adapter(model, rank=2, seed=0) if kind.endswith("LoRA") else model
    batch = collate([Tokens((5, 6, 7, 8, 9), 2), Tokens((7, 8, 5), 1)], [0, 1], pad_id=1, device="cpu")
    states = model(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask, output_hidden_states=True, use_cache=False
    ).hidden_states
    present = batch.attention_mask.bool()  # at padding they may differ
    assert len(decoder_blocks(model)) == 3
    hooks = [len(block._forward_hooks) for block in decoder_blocks(model)]
    for layer in (0, 1):
        torch.testing.assert_close(block_output(model, batch, layer)[present], states[layer + 1][present])
    assert [len(block._forward_hooks) for block in decoder_blocks(model)] == hooks


def test_a_model_without_decoder_blocks_is_refused() -> None:
    model = ResNetForImageClassification(ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1]))
    with pytest.raises(ValueError, match="ResNetForImageClassification"):
        decoder_blocks(model)
