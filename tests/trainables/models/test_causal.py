"""A model whose losses or batched answers would be wrong is refused when it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertLMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
    RwkvConfig,
    RwkvForCausalLM,
    XLNetConfig,
    XLNetLMHeadModel,
)

from tests.facts import assert_names
from trainables.models.causal import NotCausalError
from trainables.models.checkpoints import load_model

IDS = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def bert(*, is_decoder: bool) -> Any:
    torch.manual_seed(0)
    return BertLMHeadModel(BertConfig(**SIZES, **IDS, is_decoder=is_decoder))


def xlnet() -> Any:
    torch.manual_seed(0)
    return XLNetLMHeadModel(XLNetConfig(d_model=16, n_layer=2, n_head=2, d_inner=32, **IDS))


def rwkv() -> Any:
    torch.manual_seed(0)
    return RwkvForCausalLM(RwkvConfig(hidden_size=16, attention_hidden_size=16, num_hidden_layers=2, **IDS))


def recurrent_gemma() -> Any:
    torch.manual_seed(0)
    return RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**{**SIZES, "num_hidden_layers": 3}, lru_width=16, **IDS))


@pytest.mark.parametrize("model", [bert(is_decoder=False), xlnet()], ids=["bert", "xlnet"])
def test_a_model_whose_tokens_see_the_next_tokens_is_refused(model: Any, tmp_path: Path) -> None:
    with pytest.raises(NotCausalError) as refusal:
        load_model(saved(model, tmp_path))
    assert_names(refusal.value, str(tmp_path), type(model).__name__, "sees the next tokens", "is_decoder")
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("model", [rwkv(), recurrent_gemma()], ids=["rwkv", "recurrent_gemma"])
def test_a_model_that_does_not_ignore_padding_on_the_left_is_refused(model: Any, tmp_path: Path) -> None:
    with pytest.raises(NotCausalError) as refusal:
        load_model(saved(model, tmp_path))
    assert_names(refusal.value, str(tmp_path), type(model).__name__, "padding on the left")


def test_causal_models_are_loaded(tmp_path: Path) -> None:
    torch.manual_seed(0)
    window = MistralForCausalLM(MistralConfig(**SIZES, num_key_value_heads=1, sliding_window=3, **IDS))
    for name, model in (("bert", bert(is_decoder=True)), ("mistral", window)):
        loaded = load_model(saved(model, tmp_path / name))
        assert not loaded.training
        assert torch.equal(loaded.get_input_embeddings().weight, model.get_input_embeddings().weight)
