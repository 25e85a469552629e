"""A checkpoint folder can be loaded by transformers alone, and is written completely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.trainables.runs import same_bits
from trainables.models.checkpoints import LoadError, load_model, save_model


def _equal(one: Any, other: Any) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and same_bits(mine.values(), theirs.values())


def test_a_saved_model_loads_with_transformers_alone(tmp_path: Path, make_network: Any, tokenizer: Any) -> None:
    model, folder = make_network(), tmp_path / "deep" / "checkpoint"
    save_model(model, tokenizer, folder)
    assert _equal(AutoModelForCausalLM.from_pretrained(folder), model)
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == tokenizer.get_vocab()
    assert [path.suffix for path in folder.iterdir() if path.stat().st_size > 50_000] == [".safetensors"]


def test_an_older_folder_is_replaced_whole_or_not_at_all(
    tmp_path: Path, make_network: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint"
    save_model(make_network(seed=0), tokenizer, folder)
    (folder / "stale.txt").write_text("from the older one")
    new = make_network(seed=1).bfloat16()
    save_model(new, tokenizer, folder)
    new = new.float()  # models are always loaded in float32
    assert _equal(load_model(folder), new)
    assert not (folder / "stale.txt").exists()

    def full_disk(path: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(tokenizer, "save_pretrained", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_model(make_network(seed=2), tokenizer, folder)
    assert _equal(load_model(folder), new)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_pickled_weights_which_may_run_code_are_not_loaded(tmp_path: Path, make_network: Any) -> None:
    model = make_network()
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(LoadError, match="safetensors"):
        load_model(tmp_path)
