"""Faster kernels give the results of torch's own layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from trainables.models.checkpoints import save_model
from trainables.models.kernels import fuse_activations


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
