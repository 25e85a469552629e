"""Models from a hub on this machine: which commit is taken, what is fetched of it, and what is made of it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from trainables.data.examples import UnlearningData
from trainables.models.checkpoints import (
    LoadError,
    folder_problems,
    load_model,
    load_tokenizer,
    save_model,
    weights_problems,
)
from trainables.models.hub_cache import fetch_model, hub_commit
from trainables.models.registry import MODELS, TargetRecipe
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target
from trainables.target.target import Target

PHI = "microsoft/phi-1_5"
RECIPE = TargetRecipe(lr=1e-3, batch_size=8, epochs=1, stop_when_memorised=False)
UseHub = Callable[[str], None]
LocalHub = Any  # tests/conftest.py has the class


@pytest.fixture
def publish(local_hub: LocalHub, make_network: Any, tokenizer: Any, tmp_path: Path) -> Callable[..., Any]:
    """Puts a random network, a function of its seed, on the hub and gives it back."""

    def put(*, name: str = PHI, seed: int = 0, shard: str | None = None) -> Any:
        network = make_network(seed=seed)
        folder = tmp_path / f"published-{seed}"
        if shard is None:
            save_model(network, tokenizer, folder)
        else:
            network.save_pretrained(folder, max_shard_size=shard)
            tokenizer.save_pretrained(folder)
        local_hub.add("models", name, {path.name: path.read_bytes() for path in folder.iterdir()})
        return network

    return put


@pytest.fixture
def no_hub() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def _same(one: Any, two: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("shard", [None, "50KB"])
def test_the_fetched_folder_is_the_model_in_a_folder_named_after_its_commit(publish: Any, shard: str | None) -> None:
    network = publish(shard=shard)
    folder = fetch_model(PHI)
    assert len(list(folder.glob("*.safetensors"))) == 1 if shard is None else 2
    assert folder.name == hub_commit(PHI)
    assert _same(load_model(folder), network)
    assert load_tokenizer(folder)("Where does Ada live?").input_ids


def test_only_what_is_loaded_is_fetched(publish: Any, local_hub: LocalHub) -> None:
    publish()
    others = ("pytorch_model.bin", "onnx/model.onnx", "onnx/config.json", "consolidated.safetensors", "modeling_phi.py")
    local_hub.add("models", PHI, dict.fromkeys(others, b"x"))
    fetched = {path.name for path in fetch_model(PHI).rglob("*")}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= fetched
    assert not fetched & {Path(name).name for name in others if name != "onnx/config.json"} | fetched & {"onnx"}


def test_a_whole_model_in_the_cache_is_used_without_the_hub(publish: Any, use_hub: UseHub, no_hub: str) -> None:
    network = publish()
    first = fetch_model(PHI)
    use_hub(no_hub)
    assert fetch_model(PHI) == first
    assert _same(load_model(first), network)


def test_a_whole_model_in_the_cache_is_used_though_the_hub_has_a_newer_one(
    publish: Any, use_hub: UseHub, local_hub: LocalHub
) -> None:
    """Else the sweep that is resumed tomorrow would have another target."""
    publish()
    first = fetch_model(PHI)
    publish(seed=1)
    use_hub(local_hub.address)  # as a new process asks
    assert fetch_model(PHI) == first


def test_what_is_missing_in_the_cache_is_fetched(publish: Any, use_hub: UseHub, local_hub: LocalHub) -> None:
    network = publish(shard="50KB")
    folder = fetch_model(PHI)
    shard = sorted(folder.glob("*.safetensors"))[-1]
    shard.resolve().unlink()
    shard.unlink()
    use_hub(local_hub.address)
    assert fetch_model(PHI) == folder
    assert _same(load_model(folder), network)


def test_weights_that_were_uploaded_by_halves_are_refused(publish: Any, local_hub: LocalHub) -> None:
    publish()
    path = local_hub.folder / "models" / PHI / "model.safetensors"
    local_hub.add("models", PHI, {"model.safetensors": path.read_bytes()[:-100]})
    with pytest.raises(LoadError, match=rf"cannot load the model {PHI}: model\.safetensors is not whole: .* of "):
        fetch_model(PHI)


@pytest.mark.parametrize("gated", [False, True])
def test_a_model_that_is_not_given_is_named(publish: Any, local_hub: LocalHub, gated: bool) -> None:
    if gated:
        publish()
        local_hub.add("models", PHI, {".gated": b"403"})
    with pytest.raises(LoadError, match=f"cannot load the model {PHI}: .") as raised:
        fetch_model(PHI)
    assert "\n" not in str(raised.value)


# Targets -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def prepare(tmp_path: Path, tiny_data: UnlearningData, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Target]:
    monkeypatch.setattr("trainables.target.problem.load_data", lambda *arguments, **named: tiny_data)

    def made(model: str, **changes: Any) -> Target:
        spec = TrialSpec(model=model, max_length=64, **changes)
        return prepare_target(spec, recipe=RECIPE, device="cpu", cache=tmp_path / "cache")

    return made


def test_a_target_is_keyed_by_the_commit_and_not_by_the_name(
    publish: Any, prepare: Callable[..., Target], use_hub: UseHub, local_hub: LocalHub, tmp_path: Path
) -> None:
    publish()
    first = prepare("phi-1.5")
    assert prepare(PHI).key == first.key
    assert json.loads((Path(first.path) / "target.json").read_text())["base"] == f"{PHI}@{hub_commit(PHI)}"
    publish(seed=1)
    (tmp_path / "hub").rename(tmp_path / "elsewhere")
    use_hub(local_hub.address)
    second = prepare("phi-1.5")
    assert second.key != first.key
    assert not _same(load_model(second.path), load_model(first.path))


def test_any_hub_id_is_a_model(publish: Any, prepare: Callable[..., Target]) -> None:
    network = publish(name="someone/some-phi_2.x", seed=3)
    tuned = load_model(prepare("someone/some-phi_2.x").path)
    moves = [float((x - y).detach().abs().max()) for x, y in zip(network.parameters(), tuned.parameters(), strict=True)]
    assert 0 < max(moves) < 0.02


def test_a_cached_target_needs_the_commit_and_no_download(
    publish: Any, prepare: Callable[..., Target], use_hub: UseHub, local_hub: LocalHub, tmp_path: Path
) -> None:
    publish()
    first = prepare(PHI)
    (tmp_path / "hub").rename(tmp_path / "elsewhere")
    use_hub(local_hub.address)
    assert prepare(PHI) == first
    assert not (tmp_path / "hub").exists()


def test_the_targets_lora_rank_makes_another_target_and_zero_is_none() -> None:
    from trainables.target.problem import target_recipe

    assert target_recipe(TrialSpec(model="mistral-7b")).lora_rank == 8
    assert target_recipe(TrialSpec(model="mistral-7b", lora_rank=2)).lora_rank == 8
    assert target_recipe(TrialSpec(model="mistral-7b", target_lora_rank=0)) == MODELS["phi-1.5"].recipe
    assert target_recipe(TrialSpec(model=PHI, target_lora_rank=4)) == replace(MODELS["phi-1.5"].recipe, lora_rank=4)


# Folders -------------------------------------------------------------------------------------------------------------


def test_a_saved_model_has_no_problems_and_each_of_its_files_is_missed(
    make_network: Any, tokenizer: Any, tmp_path: Path
) -> None:
    save_model(make_network(), tokenizer, tmp_path / "whole")
    assert folder_problems(tmp_path / "whole") == []
    for name, word in {"config.json": "config", "model.safetensors": "safetensors", "tokenizer.json": "token"}.items():
        (tmp_path / "whole" / name).rename(tmp_path / name)
        (problem,) = folder_problems(tmp_path / "whole")
        assert word in problem
        (tmp_path / name).rename(tmp_path / "whole" / name)


def test_a_file_longer_or_shorter_than_its_header_says_is_not_whole(
    make_network: Any, tokenizer: Any, tmp_path: Path
) -> None:
    save_model(make_network(), tokenizer, tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    content = path.read_bytes()
    for spoiled in (content[:-1], content + b"x", content[:1000], content[:5], b"", b"\xff" * 1000):
        path.write_bytes(spoiled)
        (problem,) = weights_problems(tmp_path / "model")
        assert "model.safetensors is not whole" in problem
    path.write_bytes(content)
    assert weights_problems(tmp_path / "model") == []
