"""A model is loaded with all its weights or not at all, and known prefixes of their names are removed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import FalconConfig, FalconForCausalLM, GPT2Config, GPT2LMHeadModel, PhiConfig, PhiForCausalLM

from tests.facts import assert_names
from trainables.models.adapters import add_adapter, merge_adapter
from trainables.models.checkpoints import folder_problems, load_model
from trainables.models.weights import WeightsError, removed_prefixes
from trainables.vision.models import load_classifier, make_resnet

IDS = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 1}
Weights = dict[str, Tensor]


def phi() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return PhiForCausalLM(PhiConfig(**sizes, **IDS))


def gpt2() -> Any:
    """A model whose embedding and head are tied: its file has no head."""
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=16, **IDS))
    model.lm_head.weight = model.transformer.wte.weight
    return model


def falcon() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "alibi": True}
    model = FalconForCausalLM(FalconConfig(**sizes, **IDS))
    model.lm_head.weight = model.transformer.word_embeddings.weight
    return model


def with_prefix(prefix: str) -> Callable[[Weights], Weights]:
    return lambda weights: {prefix + name: tensor for name, tensor in weights.items()}


def without(text: str) -> Callable[[Weights], Weights]:
    return lambda weights: {name: tensor for name, tensor in weights.items() if text not in name}


def change(folder: Path, edit: Callable[[Weights], Weights], file: str = "model.safetensors") -> Path:
    weights = edit(load_file(folder / file))
    save_file({name: tensor.clone() for name, tensor in weights.items()}, folder / file, metadata={"format": "pt"})
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    phi().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def compiled_blocks(weights: Weights) -> Weights:
    return {re.sub(r"(layers\.\d)", r"\1._orig_mod", name): tensor for name, tensor in weights.items()}


@pytest.mark.parametrize("make", [phi, gpt2, falcon])
@pytest.mark.parametrize(
    ("edit", "prefixes"),
    [
        (with_prefix(""), []),
        (with_prefix("_orig_mod."), ["_orig_mod."]),
        (with_prefix("module."), ["module."]),
        (with_prefix("_orig_mod.module."), ["_orig_mod.", "module."]),
        (with_prefix("base_model.model."), ["base_model.model."]),
    ],
)
def test_known_prefixes_are_removed(
    make: Callable[[], Any], edit: Callable[[Weights], Weights], prefixes: list[str], tmp_path: Path
) -> None:
    model = make()
    model.save_pretrained(tmp_path)
    loaded = load_model(change(tmp_path, edit))
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert removed_prefixes(tmp_path) == prefixes


def test_names_of_compiled_blocks_are_known(folder: Path) -> None:
    change(folder, compiled_blocks)
    loaded = load_model(folder).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in phi().state_dict().items())


def cut_embedding(weights: Weights) -> Weights:
    return {**weights, "model.embed_tokens.weight": weights["model.embed_tokens.weight"][:10]}


def another_layer(weights: Weights) -> Weights:
    return weights | {name.replace(".1.", ".7."): tensor for name, tensor in weights.items() if ".1." in name}


def with_lora(weights: Weights) -> Weights:
    renamed = {name.replace("dense", "dense.base_layer"): tensor for name, tensor in weights.items()}
    return renamed | {"model.layers.0.self_attn.dense.lora_A.default.weight": torch.zeros(2, 16)}


@pytest.mark.parametrize("skeleton", [True, False])
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            without("layers.1.mlp.fc1.bias"),
            r"1 of 33 weights are missing: model\.layers\.1\.mlp\.fc1\.bias; save",
        ),
        (without("layers.1."), r"14 of 33 weights are missing: .* and 11 more"),
        (without("lm_head"), r"2 of 33 weights are missing: lm_head\.bias, lm_head\.weight"),
        (with_prefix("policy.net."), r"33 of 33 weights are missing: .*begin with 'policy\.net\.'"),
        (
            cut_embedding,
            r"1 of 33 weights have another shape: model\.embed_tokens\.weight is 10 x 16 in the files",
        ),
        (another_layer, r"14 weights in the files are for layers that the model does not have: model\.layers\.7\."),
        (with_lora, r"4 of 33 weights are missing: .*LoRA weights; merge"),
    ],
)
def test_incomplete_weights_are_refused(
    edit: Callable[[Weights], Weights], message: str, skeleton: bool, folder: Path
) -> None:
    with pytest.raises(WeightsError, match=message) as error:
        load_model(change(folder, edit), skeleton=skeleton)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused_by_name(folder: Path, value: float) -> None:
    name = "model.layers.1.mlp.fc1.bias"

    def spoil(weights: Weights) -> Weights:
        weights[name][3] = value
        return weights

    with pytest.raises(WeightsError) as refusal:
        load_model(change(folder, spoil))
    assert_names(refusal.value, str(folder), "1 of ", "NaN or infinite", name)


def test_finite_weights_whose_sum_is_infinite_are_accepted(folder: Path) -> None:
    load_model(change(folder, lambda weights: {name: tensor.fill_(3e38) for name, tensor in weights.items()}))


def test_pointers_of_git_lfs_are_named(folder: Path) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    weights, tokenizer = folder_problems(folder)
    assert_names(weights, "model.safetensors is a Git LFS pointer", "git lfs pull")
    assert_names(tokenizer, "tokenizer.json is a Git LFS pointer")


def test_weights_that_the_model_does_not_need_are_accepted(tmp_path: Path) -> None:
    """Old files of GPT-2 have the causal mask and no prefix, and a model with a value head has the head's weights."""
    gpt2().save_pretrained(tmp_path)
    extra = {"transformer.h.0.attn.bias": torch.ones(1, 1, 16, 16), "v_head.summary.weight": torch.ones(1, 16)}
    change(
        tmp_path, lambda weights: {name.removeprefix("transformer."): item for name, item in weights.items()} | extra
    )
    assert torch.equal(load_model(tmp_path).get_parameter("transformer.wpe.weight"), gpt2().transformer.wpe.weight)


def test_a_missing_head_is_found_although_other_models_of_its_class_tie_it(tmp_path: Path) -> None:
    model = gpt2()
    model.save_pretrained(tmp_path)
    model.config.tie_word_embeddings = False
    model.config.save_pretrained(tmp_path)
    with pytest.raises(WeightsError, match=r"1 of 29 weights are missing: lm_head\.weight"):
        load_model(tmp_path)


@pytest.fixture
def adapter(folder: Path, tmp_path: Path, tokenizer: Any) -> Path:
    model = add_adapter(load_model(folder), rank=2, seed=0)
    torch.nn.init.ones_(model.get_parameter("base_model.model.model.layers.0.mlp.fc1.lora_B.default.weight"))
    model.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_an_adapter_is_loaded_whole(adapter: Path, folder: Path) -> None:
    change(adapter, with_prefix("_orig_mod."), "adapter_model.safetensors")
    model = load_model(adapter)
    weights = model.get_parameter("model.layers.0.mlp.fc1.lora_B.default.weight")
    assert torch.equal(weights, torch.ones_like(weights))
    assert removed_prefixes(adapter) == []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (with_prefix("x."), r"adapter: 24 of 24 weights are missing.*; save the adapter again"),
        (without("lora_B"), r"adapter: 12 of 24 weights are missing"),
        (another_layer, r"adapter: 12 weights in the files are for layers that the model does not have"),
    ],
)
def test_an_adapter_with_other_weights_is_neither_loaded_nor_merged(
    edit: Callable[[Weights], Weights], message: str, adapter: Path, folder: Path, tmp_path: Path
) -> None:
    change(adapter, edit, "adapter_model.safetensors")
    with pytest.raises(WeightsError, match=message):
        load_model(adapter)
    with pytest.raises(WeightsError, match=message):
        merge_adapter(adapter, str(folder), tmp_path / "merged")


def test_an_adapter_needs_a_complete_base_model(adapter: Path, folder: Path) -> None:
    change(folder, without("lm_head"))
    with pytest.raises(WeightsError, match=r"model: 2 of 33 weights are missing"):
        load_model(adapter)


LABELS = {number: str(number) for number in range(5)}


@pytest.mark.parametrize("skeleton", [True, False])
def test_only_the_head_of_a_classifier_may_be_missing_and_only_if_it_is_trained_again(
    tmp_path: Path, skeleton: bool
) -> None:
    make_resnet("tiny-resnet", channels=1, labels=LABELS).save_pretrained(tmp_path)
    change(tmp_path, with_prefix("_orig_mod."))
    load_classifier(tmp_path, skeleton=skeleton)
    change(tmp_path, without("num_batches_tracked"))  # as in files of old versions of torch; not used
    load_classifier(tmp_path, skeleton=skeleton)
    change(tmp_path, without("classifier"))
    with pytest.raises(WeightsError, match=r"2 of 32 weights are missing: classifier\.1\.bias"):
        load_classifier(tmp_path, skeleton=skeleton)
    load_classifier(tmp_path, new_head=True, skeleton=skeleton)
    change(tmp_path, without("running_mean"))
    with pytest.raises(WeightsError, match=r"6 of 30 weights are missing: resnet\.embedder"):
        load_classifier(tmp_path, new_head=True, skeleton=skeleton)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8])
def test_quantised_weights_without_a_description_are_refused(dtype: torch.dtype, tmp_path: Path) -> None:
    """Their codes would be used as the weights, without the scales in the file."""
    model = phi()
    model.save_pretrained(tmp_path)
    name = "model.layers.0.mlp.fc1.weight"

    def quantised(weights: Weights) -> Weights:
        scale = weights[name].abs().max() / 100
        return weights | {name: (weights[name] / scale).to(dtype), f"{name}_scale_inv": scale.reshape(1, 1)}

    change(tmp_path, quantised)
    configuration = json.loads((tmp_path / "config.json").read_text())
    for content in (configuration, configuration | {"quantization_config": None}):
        (tmp_path / "config.json").write_text(json.dumps(content))
        for skeleton in (True, False):
            with pytest.raises(WeightsError) as refusal:
                load_model(tmp_path, skeleton=skeleton)
            assert_names(refusal.value, str(tmp_path), "of the weights are quantised", "quantization_config", name)
