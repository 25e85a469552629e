"""A folder is written completely or not at all. Stored weights are mapped from its files and do not change."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, PhiConfig, PhiForCausalLM

from tests.trainables.runs import same_bits
from trainables.models.checkpoints import load_model, save_model
from trainables.models.stored_weights import StoredWeights
from trainables.models.weights import LoadError

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process what it has mapped")


SHAPE = {"vocab_size": 50, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 1}


def tiny() -> nn.Module:
    torch.manual_seed(0)
    return PhiForCausalLM(
        PhiConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, **SHAPE)
    )


def mapped_file(tensor: Tensor) -> str:
    """Return the file that is mapped at the tensor's memory; "" if there is no such file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, last = line.split(maxsplit=5)
        first, end = (int(part, 16) for part in span.split("-"))
        if first <= tensor.data_ptr() < end:
            return last if last.startswith("/") else ""
    raise AssertionError("nowhere")


def stored_weights(model: nn.Module, folder: Path) -> dict[str, Tensor]:
    return StoredWeights(model, folder)._tensors


def assert_equal(found: dict[str, Tensor], model: nn.Module) -> None:
    expected = model.state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert tensor.dtype == expected[name].dtype, name
        assert torch.equal(tensor, expected[name]), name


@linux
@pytest.mark.parametrize("shard", ["50GB", "2KB"])
def test_weights_of_the_files_are_mapped_from_them(tmp_path: Path, shard: str) -> None:
    tiny().save_pretrained(tmp_path, max_shard_size=shard)  # type: ignore[operator]
    files = {str(file) for file in tmp_path.glob("*.safetensors")}
    assert (len(files) > 1) == (shard == "2KB")
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    found = stored_weights(model, tmp_path)
    assert_equal(found, model)
    assert {mapped_file(tensor) for tensor in found.values()} == files


@linux
def test_weights_that_differ_from_the_files_are_copied(tmp_path: Path) -> None:
    model = tiny()
    half = model.get_submodule("lm_head").bfloat16()
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    half.float()
    with torch.no_grad():
        model.get_parameter("model.final_layernorm.bias")[0] += 1
    found = stored_weights(model, tmp_path)
    assert_equal(found, model)
    assert [name for name, tensor in found.items() if not mapped_file(tensor)] == [
        *("model.final_layernorm.bias", "lm_head.weight", "lm_head.bias")
    ]


def test_stored_weights_do_not_change_with_the_model_and_are_loaded_until_their_file_changes(tmp_path: Path) -> None:
    model = tiny()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.safetensors").write_bytes(b"no such thing")
    model.save_pretrained(tmp_path / "own")  # type: ignore[operator]
    file = tmp_path / "own" / "model.safetensors"
    content = file.read_bytes()
    mapped, copied = (StoredWeights(model, tmp_path / name) for name in ("own", "other"))

    def load(stored: StoredWeights) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(7.0)
        stored.load_into(model)
        assert_equal(model.state_dict(), tiny())  # type: ignore[arg-type]

    load(copied)
    load(mapped)
    file.unlink()  # as in a pruned cache: the memory map stays
    load(mapped)
    file.write_bytes(content[:-4] + bytes(4))
    with pytest.raises(LoadError, match=r"model\.safetensors .*changed"):
        load(mapped)


def test_tied_weights_are_kept_once(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, **SHAPE))
    # transformers stops tying weights in a process in which two threads have loaded models at the same time.
    model.lm_head.weight = model.transformer.wte.weight
    model.save_pretrained(tmp_path)
    for folder in (tmp_path, tmp_path / "empty"):
        found = stored_weights(model, folder)
        assert_equal(found, model)
        assert found["lm_head.weight"] is found["transformer.wte.weight"]


def test_an_older_folder_is_replaced_whole_or_not_at_all(
    tmp_path: Path, make_network: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint"
    save_model(make_network(seed=0), tokenizer, folder)
    (folder / "stale.txt").write_text("from the older one")
    new = make_network(seed=1).bfloat16()
    save_model(new, tokenizer, folder)
    new = new.float()  # models are always loaded in float32
    assert_equal(load_model(folder).state_dict(), new)
    assert not (folder / "stale.txt").exists()

    def full_disk(path: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(tokenizer, "save_pretrained", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_model(make_network(seed=2), tokenizer, folder)
    assert_equal(load_model(folder).state_dict(), new)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_pickled_weights_which_may_run_code_are_not_loaded(tmp_path: Path, make_network: Any) -> None:
    model = make_network()
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(LoadError, match="safetensors"):
        load_model(tmp_path)


@pytest.mark.parametrize("temperature", [1.0, 0.6])  # transformers refuses to save 0.6 without do_sample
def test_a_saved_model_keeps_the_bytes_of_its_generation_config(
    tmp_path: Path, make_network: Any, tokenizer: Any, temperature: float
) -> None:
    save_model(make_network(), tokenizer, tmp_path / "target")
    settings = f'{{"no_repeat_ngram_size":2, "temperature": {temperature}, "eos_token_id": [1, 2]}}'
    (tmp_path / "target" / "generation_config.json").write_text(settings)
    save_model(load_model(tmp_path / "target"), tokenizer, tmp_path / "trial")
    save_model(load_model(tmp_path / "trial"), tokenizer, tmp_path / "again")
    for name in ("trial", "again"):
        assert (tmp_path / name / "generation_config.json").read_text() == settings


def test_a_model_can_be_saved_after_the_folder_from_which_it_was_loaded_is_removed(
    tmp_path: Path, make_network: Any, tokenizer: Any
) -> None:
    save_model(make_network(), tokenizer, tmp_path / "target")
    model = load_model(tmp_path / "target")
    shutil.rmtree(tmp_path / "target")
    save_model(model, tokenizer, tmp_path / "trial")
    assert same_bits(load_model(tmp_path / "trial").parameters(), model.parameters())
