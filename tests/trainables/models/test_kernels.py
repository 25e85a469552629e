"""Faster kernels give the results of torch's own layers, of float64 and of whole models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from transformers import AutoModelForCausalLM

from trainables.data import load_data
from trainables.models import kernels
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import load_model, save_model
from trainables.models.kernels import (
    OneDnnLinear,
    fuse_activations,
    onednn_is_faster,
    onednn_works,
    use_onednn,
    with_fast_kernels,
)
from trainables.models.tiny import TINY_MODELS, make_tiny, tokenizer_for
from trainables.predictions import mean_loss
from trainables.text.losses import predict
from trainables.text.tokens import collate, encode_examples

with_onednn = pytest.mark.skipif(not onednn_works(), reason="this build of torch, or this CPU, has no oneDNN")


def _layers(*, bias: bool = True, outputs: int = 40) -> tuple[torch.nn.Linear, torch.nn.Linear]:
    torch.manual_seed(0)
    plain = torch.nn.Linear(24, outputs, bias=bias)
    fast = use_onednn(torch.nn.Sequential(copy.deepcopy(plain)))[0]
    assert type(fast) is OneDnnLinear
    return plain, fast


@with_onednn
@pytest.mark.parametrize(
    "call",
    [
        lambda layer: layer(torch.ones(31, 24)),
        lambda layer: layer(torch.ones(24)),
        lambda layer: layer(torch.ones(0, 24)),
        lambda layer: layer.double()(torch.ones(64, 24).double()),
        lambda layer: torch.autocast("cpu", dtype=torch.bfloat16)(layer)(torch.ones(64, 24)),
    ],
    ids=["few rows, as in a generation", "one row", "no row", "float64", "bfloat16"],
)
def test_other_inputs_are_left_to_torch(call: Callable[[Any], torch.Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    layers = _layers()
    monkeypatch.setattr(kernels, "onednn_product", None)  # which cannot be called
    plain, fast = map(call, layers)
    assert plain.dtype == fast.dtype
    assert torch.equal(plain, fast)


@with_onednn
@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, "none") for name in TINY_MODELS if name != "tiny-gpt2"),
        ("tiny-phi", "adapter"),
        ("tiny-phi", "checkpointing"),
    ],
)
def test_whole_models_have_the_same_losses_and_gradients(
    name: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = load_data("authors").forget[:6]
    tokenizer = tokenizer_for(name, examples)
    items = encode_examples(tokenizer, examples, max_length=64)
    batch = collate(items, range(6), pad_id=0, device="cpu")
    found = []
    for fast in (False, True, True):
        monkeypatch.setattr(kernels, "onednn_is_faster", lambda fast=fast: fast)
        model: Any = with_fast_kernels(make_tiny(name, tokenizer))
        if change == "adapter":
            model = add_adapter(model, rank=4, seed=0)
        elif change == "checkpointing":
            model.gradient_checkpointing_enable()
        assert any(isinstance(module, OneDnnLinear) for module in model.modules()) is fast
        torch.manual_seed(0)  # of the dropout
        predicted = predict(model.train(), batch)
        loss = mean_loss(predicted.nll, predicted.supervised)
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    plain, once, again = found
    assert len(plain) == len(once) > 8
    for one, two, three in zip(plain, once, again, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
        assert torch.equal(two, three), "the same bits every time"


def _cpu(vendor: str, family: int) -> str:
    return f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 1\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    ("cpuinfo", "instructions", "expected"),
    [
        (_cpu("AuthenticAMD", 26), "AVX512_BF16", True),
        (_cpu("AuthenticAMD", 26), "AVX2", False),
        (_cpu("GenuineIntel", 6), "AVX512", False),
        (None, "AVX512", False),
    ],
    ids=["Zen 5", "Zen 5 without AVX512", "Intel", "not Linux"],
)
def test_onednn_is_chosen_by_the_name_of_the_cpu(
    cpuinfo: str | None, instructions: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CPU", tmp_path / "cpuinfo")
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    monkeypatch.setattr(kernels, "onednn_works", lambda: True)
    assert onednn_is_faster.__wrapped__() is expected
    monkeypatch.setattr(kernels, "onednn_works", lambda: False)
    assert onednn_is_faster.__wrapped__() is False


@pytest.mark.parametrize("error", [AttributeError("no such operation"), RuntimeError("could not create a primitive")])
def test_a_build_without_the_product_is_no_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "onednn_product", Mock(side_effect=error))
    assert not onednn_works()


@pytest.mark.parametrize("faster", [True, False])
def test_a_model_is_loaded_with_the_faster_kernel_and_saved_without_it(
    faster: bool, make_network: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "onednn_is_faster", lambda: faster)
    save_model(make_network(), tokenizer, tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert any(isinstance(module, OneDnnLinear) for module in model.modules()) is faster
    save_model(model, tokenizer, tmp_path / "again")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("model", "again")]
    assert files[0] == files[1]


def test_fused_activations_compute_the_same_and_are_not_saved(
    make_network: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model, ids = make_network(seed=3), torch.arange(30)[None, :]
    spelled_out = model(input_ids=ids).logits
    assert model.config.hidden_act == "gelu_new"
    kinds = [type(module).__name__ for module in fuse_activations(model).modules()]
    assert "NewGELUActivation" not in kinds
    assert "GELU" in kinds
    torch.testing.assert_close(model(input_ids=ids).logits, spelled_out, rtol=1e-5, atol=1e-5)
    save_model(model, tokenizer, tmp_path / "saved")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    assert torch.equal(plain(input_ids=ids).logits, spelled_out)
