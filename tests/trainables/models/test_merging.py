"""Merged task vectors, against an independent computation element by element."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import load_model, save_model
from trainables.models.merging import RULES, Models, mean, merged_weights, sign_consensus, write_merged_model
from trainables.models.weights import LoadError


def by_hand(vectors: list[list[float]]) -> list[float]:
    """Return NegMerge's vector without tensors: the mean where all elements have one sign, otherwise 0."""
    merged = []
    for elements in zip(*vectors, strict=True):
        signs = {(value > 0) - (value < 0) for value in elements}
        merged.append(sum(elements) / len(elements) if len(signs) == 1 and 0 not in signs else 0.0)
    return merged


def test_the_sign_consensus_keeps_only_elements_on_whose_sign_all_vectors_agree() -> None:
    vectors = [[1.0, -1.0, 2.0, 0.0, 3.0], [3.0, -3.0, -2.0, 1.0, 0.5]]
    assert sign_consensus(torch.tensor(vectors)).tolist() == [2.0, -2.0, 0.0, 0.0, 1.75]


def test_the_sign_consensus_of_random_vectors_is_the_one_by_hand() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(3, 200, generator=generator, dtype=torch.float64)
    assert sign_consensus(vectors).tolist() == pytest.approx(by_hand(vectors.tolist()), abs=1e-15)


@pytest.mark.parametrize("rule", RULES)
def test_one_model_with_scale_1_is_merged_to_itself(rule: str) -> None:
    target, model = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([1.5, 1.0])}
    merged = merged_weights(target, [model], rule=rule, scale=1.0)
    assert torch.equal(merged["w"], model["w"])


def test_the_scale_multiplies_the_distance_from_the_target() -> None:
    target, model = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([1.5, 1.0])}
    assert merged_weights(target, [model], rule="mean", scale=2.0)["w"].tolist() == [2.0, 0.0]


def test_the_vector_of_a_model_finetuned_on_the_forget_set_is_negated() -> None:
    """Task arithmetic: theta = theta_0 - scale (theta_ft - theta_0)."""
    target, finetuned = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([1.5, 1.0])}
    assert merged_weights(target, [], [finetuned], rule="negmerge", scale=0.5)["w"].tolist() == [0.75, 2.5]


def test_a_vector_that_starts_at_an_earlier_checkpoint_is_subtracted_from_the_target() -> None:
    """MSA's official formula without its retain vector: target - alpha (finetuned - checkpoint)."""
    target, checkpoint, finetuned = ({"w": torch.tensor(values)} for values in ([1.0, 2.0], [0.5, 0.0], [1.5, -1.0]))
    found = merged_weights(target, [], [finetuned], checkpoint=checkpoint, rule="mean", scale=2.0)["w"]
    assert found.tolist() == [1.0 - 2.0 * (1.5 - 0.5), 2.0 - 2.0 * (-1.0 - 0.0)]


def test_integer_buffers_are_those_of_the_target() -> None:
    target = {"w": torch.tensor([1.0]), "steps": torch.tensor([7])}
    merged = merged_weights(target, [{"w": torch.tensor([2.0]), "steps": torch.tensor([9])}], rule="mean", scale=1.0)
    assert merged["steps"].tolist() == [7]


def test_the_mean_is_the_mean() -> None:
    assert mean(torch.tensor([[1.0, -1.0], [3.0, 2.0]])).tolist() == [2.0, 0.5]


def test_a_merged_folder_has_the_merged_weights(tmp_path: Path, make_network: Any, tokenizer: Any) -> None:
    models = {name: make_network(seed=seed) for seed, name in enumerate(("target", "a", "b"))}
    for name, model in models.items():
        save_model(model, tokenizer, tmp_path / name)
    paths = Models(tmp_path / "target", [tmp_path / "a", tmp_path / "b"])
    merged = tmp_path / "merged"
    write_merged_model(merged, paths, rule="negmerge", scale=1.0, load=load_model, processor=tokenizer)
    found, (target, a, b) = load_model(tmp_path / "merged").state_dict(), (m.state_dict() for m in models.values())
    for name, start in target.items():
        vectors = [(weights[name] - start).flatten().tolist() for weights in (a, b)]
        expected = torch.tensor(by_hand(vectors)).reshape(start.shape) + start
        assert torch.allclose(found[name], expected, atol=1e-6), name


def test_adapters_are_merged_into_their_base_models_first(tmp_path: Path, make_network: Any, tokenizer: Any) -> None:
    save_model(make_network(), tokenizer, tmp_path / "target")
    adapted = add_adapter(load_model(tmp_path / "target"), rank=2, seed=0)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:  # a new adapter changes nothing, because B is 0
            torch.nn.init.ones_(parameter)
    save_model(adapted, tokenizer, tmp_path / "adapter")
    paths = Models(tmp_path / "target", [tmp_path / "adapter"])
    merged = tmp_path / "merged"
    write_merged_model(merged, paths, rule="mean", scale=1.0, load=load_model, processor=tokenizer)
    found = load_model(tmp_path / "merged").state_dict()
    expected: Any = adapted
    for name, tensor in expected.merge_and_unload().state_dict().items():
        assert torch.allclose(found[name], tensor, atol=1e-6), name
    assert not torch.equal(found["model.layers.0.mlp.fc1.weight"], make_network().model.layers[0].mlp.fc1.weight)


def test_models_of_different_shapes_are_refused(tmp_path: Path, make_network: Any, tokenizer: Any) -> None:
    save_model(make_network(), tokenizer, tmp_path / "target")
    save_model(make_network(intermediate_size=16), tokenizer, tmp_path / "other")
    paths = Models(tmp_path / "target", [tmp_path / "other"])
    with pytest.raises(LoadError, match="other: the tensor"):
        write_merged_model(tmp_path / "merged", paths, rule="mean", scale=1.0, load=load_model, processor=tokenizer)
