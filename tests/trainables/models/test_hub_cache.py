"""Models from a local hub: which commit is used, which files are downloaded, and which targets are trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import assert_names
from tests.trainables.runs import same_bits
from trainables.data.examples import UnlearningData
from trainables.models.checkpoints import load_model, load_tokenizer, save_model, weights_problems
from trainables.models.hub_cache import fetch_model, hub_commit
from trainables.models.weights import LoadError
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target
from trainables.target.target import Target

PHI = "microsoft/phi-1_5"
OTHERS = ("pytorch_model.bin", "onnx/model.onnx", "onnx/config.json", "consolidated.safetensors", "modeling_phi.py")
"""Files of a repository that nothing here reads."""
UseHub = Callable[[str], None]
LocalHub = Any  # tests/conftest.py has the class


@pytest.fixture
def publish(local_hub: LocalHub, make_network: Any, tokenizer: Any, tmp_path: Path) -> Callable[..., Any]:
    def put(*, seed: int = 0, shard: str = "50GB") -> Any:
        network, folder = make_network(seed=seed), tmp_path / f"published-{seed}"
        network.save_pretrained(folder, max_shard_size=shard)
        tokenizer.save_pretrained(folder)
        local_hub.add("models", PHI, {path.name: path.read_bytes() for path in folder.iterdir()})
        return network

    return put


@pytest.mark.parametrize("shard", ["50GB", "50KB"])
def test_the_model_is_fetched_into_a_folder_named_after_its_commit_without_unneeded_files(
    publish: Any, local_hub: LocalHub, shard: str
) -> None:
    network = publish(shard=shard)
    local_hub.add("models", PHI, dict.fromkeys(OTHERS, b"x"))
    folder = fetch_model(PHI)
    assert (len(list(folder.glob("*.safetensors"))) == 1) == (shard == "50GB")
    assert folder.name == hub_commit(PHI)
    assert same_bits(load_model(folder).parameters(), network.parameters())
    assert load_tokenizer(folder)("Where does Ada live?").input_ids
    assert not [name for name in OTHERS if (folder / name).exists()]


def test_a_whole_model_in_the_cache_is_used_without_the_hub_and_although_the_hub_has_a_newer_one(
    publish: Any, use_hub: UseHub, local_hub: LocalHub
) -> None:
    """Otherwise a sweep would have another target when it is resumed later."""
    network = publish()
    first = fetch_model(PHI)
    publish(seed=1)
    for address in (local_hub.address, "http://127.0.0.1:9"):  # no hub listens at port 9
        use_hub(address)  # as in a new process
        assert fetch_model(PHI) == first
    assert same_bits(load_model(first).parameters(), network.parameters())


def test_a_file_missing_in_the_cache_is_fetched(publish: Any, use_hub: UseHub, local_hub: LocalHub) -> None:
    network = publish(shard="50KB")
    folder = fetch_model(PHI)
    shard = sorted(folder.glob("*.safetensors"))[-1]
    shard.resolve().unlink()
    shard.unlink()
    use_hub(local_hub.address)
    assert fetch_model(PHI) == folder
    assert same_bits(load_model(folder).parameters(), network.parameters())


@pytest.mark.parametrize("fault", ["missing", "cut"])
def test_a_model_that_cannot_be_fetched_whole_is_named(publish: Any, local_hub: LocalHub, fault: str) -> None:
    if fault == "cut":
        publish()
        path = local_hub.folder / "models" / PHI / "model.safetensors"
        local_hub.add("models", PHI, {"model.safetensors": path.read_bytes()[:-100]})
    with pytest.raises(LoadError) as caught:
        fetch_model(PHI)
    assert_names(caught.value, PHI, *(["model.safetensors", "is truncated"] if fault == "cut" else []))
    assert "\n" not in str(caught.value)


def test_a_target_is_keyed_by_the_commit_and_a_cached_target_needs_no_download(
    publish: Any,
    use_hub: UseHub,
    local_hub: LocalHub,
    tmp_path: Path,
    tiny_data: UnlearningData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainables.target.target.load_data", lambda *arguments, **named: tiny_data)

    def prepare(model: str) -> Target:
        spec = TrialSpec(model=model, max_length=64, target_epochs=1, target_lr=1e-3, target_batch_size=8)
        return prepare_target(spec, device="cpu", cache=tmp_path / "cache")

    publish()
    first = prepare("phi-1.5")
    assert json.loads((Path(first.path) / "target.json").read_text())["base"] == f"{PHI}@{hub_commit(PHI)}"
    (tmp_path / "hub").rename(tmp_path / "elsewhere")
    use_hub(local_hub.address)
    assert prepare(PHI) == first
    assert not (tmp_path / "hub").exists(), "nothing was downloaded"
    publish(seed=1)
    use_hub(local_hub.address)
    second = prepare("phi-1.5")
    assert second.key != first.key
    assert not same_bits(load_model(second.path).parameters(), load_model(first.path).parameters())


def test_weights_longer_or_shorter_than_their_header_are_a_problem(
    make_network: Any, tokenizer: Any, tmp_path: Path
) -> None:
    save_model(make_network(), tokenizer, tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    content = path.read_bytes()
    for spoiled in (content[:-1], content + b"x", content[:5], b"", b"\xff" * 1000):
        path.write_bytes(spoiled)
        (problem,) = weights_problems(tmp_path / "model")
        assert_names(problem, "model.safetensors", f"{len(spoiled):,} bytes")
    path.write_bytes(content)
    assert weights_problems(tmp_path / "model") == []
