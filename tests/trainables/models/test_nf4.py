"""NF4 codes against a search for the nearest of the paper's values, and weight changes of a model with an adapter."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from transformers import PhiForCausalLM

from trainables.models.adapters import add_adapter
from trainables.models.nf4 import CODES, blocks_of, nf4_codes
from trainables.models.weight_changes import copied_weights, weight_changes


def values_of_the_paper() -> np.ndarray:
    """Return the sixteen values: quantiles of the normal distribution, on each side of 0, scaled to [-1, 1]."""
    end = 0.5 * ((1 - 1 / 32) + (1 - 1 / 30))
    positive = norm.ppf(np.linspace(end, 0.5, 9)[:-1])
    negative = -norm.ppf(np.linspace(end, 0.5, 8)[:-1])
    values = np.sort(np.concatenate([positive, negative, [0.0]]))
    return values / values.max()


def nearest_codes(weights: np.ndarray) -> np.ndarray:
    """Return the index of the nearest value for each weight, block by block."""
    flat, values = weights.ravel(), values_of_the_paper()
    codes = []
    for start in range(0, flat.size, 64):
        block = flat[start : start + 64]
        scale = np.abs(block).max() or 1.0
        codes += [int(np.abs(value / scale - values).argmin()) for value in block]
    return np.array(codes).reshape(weights.shape)


def test_the_table_is_that_of_the_paper() -> None:
    assert pytest.approx(values_of_the_paper(), abs=1e-6) == np.array(CODES)


def codes_of(weights: torch.Tensor) -> np.ndarray:
    return nf4_codes(blocks_of(weights)).flatten()[: weights.numel()].view(weights.shape).numpy()


@pytest.mark.parametrize("shape", [(64,), (3, 100), (130, 7)])
def test_each_weight_has_the_code_of_the_nearest_value(shape: tuple[int, ...]) -> None:
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(4)) * 0.02
    assert np.array_equal(codes_of(weights), nearest_codes(weights.double().numpy()))
    assert np.array_equal(codes_of(-1000.0 * weights.abs()), nearest_codes(-weights.abs().double().numpy()))


def test_the_largest_weight_of_a_block_has_an_end_value_and_zeros_have_the_code_of_zero() -> None:
    weights = torch.zeros(128)
    weights[0], weights[1], weights[2] = 0.5, -0.25, 0.04
    codes = codes_of(weights)
    assert codes[:3].tolist() == [15, 2, 8]  # 0.08 is nearest to 0.0796, and -0.5 to -0.525
    assert set(codes[3:].tolist()) == {7}


def test_a_changed_weight_moves_the_distance_and_its_code(make_network: Any) -> None:
    target: PhiForCausalLM = make_network(seed=1)
    same = weight_changes(copied_weights(target), target)
    assert (same.distance, same.nf4_changed) == (0.0, 0.0)
    changed = copy.deepcopy(target)
    with torch.no_grad():
        weight = changed.model.layers[0].mlp.fc1.weight
        weight[0, 0] *= -1.0
    total = math.sqrt(sum(float(p.double().square().sum()) for p in target.parameters()))
    others = ("embed", "lm_head")
    matrices = [p for name, p in target.named_parameters() if p.dim() == 2 and not any(part in name for part in others)]
    found = weight_changes(copied_weights(changed), target)
    assert found.distance == pytest.approx(2 * abs(float(weight[0, 0])) / total, rel=1e-6)
    assert found.nf4_changed == 1 / sum(p.numel() for p in matrices)


def test_the_share_of_a_sample_of_blocks_is_near_that_of_all(
    make_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target: PhiForCausalLM = make_network(seed=1)
    changed = copy.deepcopy(target)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter += 0.1 * parameter.std() * torch.randn(parameter.shape, generator=generator)
    exact = weight_changes(copied_weights(changed), target)
    monkeypatch.setattr("trainables.models.weight_changes.MAX_BLOCKS", 100)
    sampled = [weight_changes(copied_weights(changed), target) for _ in range(2)]
    assert sampled[0] == sampled[1]
    assert sampled[0].distance == exact.distance
    assert 0.1 < exact.nf4_changed != sampled[0].nf4_changed == pytest.approx(exact.nf4_changed, rel=0.1)


def test_an_adapter_counts_as_merged(make_network: Any) -> None:
    adapted = add_adapter(make_network(seed=1), rank=2, seed=0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(2))
    weights = copied_weights(adapted)
    with adapted.disable_adapter():
        found = weight_changes(weights, adapted)
    merged = copy.deepcopy(adapted).merge_and_unload()
    target: PhiForCausalLM = make_network(seed=1)
    expected = weight_changes(copied_weights(merged), target)
    assert found.distance == pytest.approx(expected.distance, rel=1e-6)
    assert found.nf4_changed == pytest.approx(expected.nf4_changed, rel=1e-6)
    assert 0.0 < found.nf4_changed < 1.0
    assert found.distance > 0.01
