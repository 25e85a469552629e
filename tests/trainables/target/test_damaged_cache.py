"""A cached model or score that the disk has lost is never believed: the one is named, the other made anew."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from transformers import PhiForCausalLM

import trainables.models.tiny
from search_spaces.checksums import CHECKSUMS, write_checksums
from trainables.data.examples import UnlearningData
from trainables.models.registry import TargetRecipe
from trainables.spec import TrialSpec
from trainables.target.cache import folder_digest
from trainables.target.checksums import require_undamaged
from trainables.target.finetune import TargetError
from trainables.target.prepare import prepare_target
from trainables.target.target import Target
from trainables.target.training_state import load_state_file

RECIPE = TargetRecipe(lr=1e-3, batch_size=8, epochs=1, stop_when_memorised=False)


@pytest.fixture
def prepare(
    tmp_path: Path,
    tiny_data: UnlearningData,
    make_network: Callable[..., PhiForCausalLM],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], Target]:
    monkeypatch.setattr("trainables.target.problem.load_data", lambda *arguments, **named: tiny_data)
    monkeypatch.setattr(trainables.models.tiny, "make_tiny", lambda name, tokenizer, seed=0: make_network())
    return lambda: prepare_target(TrialSpec(max_length=64), recipe=RECIPE, device="cpu", cache=tmp_path / "cache")


def zero(path: Path, *, at: int, length: int) -> None:
    """What a disk leaves that has lost blocks; the size stays."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(length))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_zeroed_bytes_in_a_cached_target_are_found(prepare: Callable[[], Target], name: str) -> None:
    folder = Path(prepare().path)
    weights = folder / name
    zero(weights, at=weights.stat().st_size // 2, length=64)
    with pytest.raises(TargetError, match=f"{name} is not as written; delete that folder") as caught:
        prepare()
    assert str(folder) in str(caught.value)


def test_a_file_missing_from_a_cached_target_is_found(prepare: Callable[[], Target]) -> None:
    (Path(prepare().path) / "config.json").unlink()
    with pytest.raises(TargetError, match=r"config\.json is not as written"):
        prepare()


def test_a_target_from_before_there_were_checksums_stays_what_it_was_and_gets_them(
    prepare: Callable[[], Target],
) -> None:
    first = prepare()
    folder = Path(first.path)
    before = folder_digest(folder)
    (folder / CHECKSUMS).unlink()
    assert prepare() == first
    assert (folder / CHECKSUMS).is_file()
    assert folder_digest(folder) == before
    zero(folder / "model.safetensors", at=5000, length=64)
    with pytest.raises(TargetError):
        prepare()


def test_checksums_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1234")
    write_checksums(tmp_path)
    require_undamaged(tmp_path)
    zero(tmp_path / CHECKSUMS, at=0, length=20)
    with pytest.raises(TargetError, match=CHECKSUMS):
        require_undamaged(tmp_path)


def test_each_block_of_a_large_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search_spaces.checksums._BLOCK", 16)
    (tmp_path / "weights").write_bytes(bytes(range(100)))
    write_checksums(tmp_path)
    for at in range(1, 100, 15):
        (tmp_path / "weights").write_bytes(bytes(range(100)))
        require_undamaged(tmp_path)
        zero(tmp_path / "weights", at=at, length=1)
        with pytest.raises(TargetError, match="weights is not as written"):
            require_undamaged(tmp_path)


@pytest.mark.parametrize("damage", ["torn", "zeroed", "another"])
def test_a_damaged_baseline_is_measured_again(prepare: Callable[[], Target], tmp_path: Path, damage: str) -> None:
    first = prepare()
    files = sorted((tmp_path / "cache" / "baselines").iterdir())
    assert files
    for path in files:
        whole = path.read_bytes()
        path.write_bytes({"torn": whole[:40], "zeroed": whole[:20] + bytes(len(whole) - 20), "another": b"[]"}[damage])
    assert asdict(prepare()) == asdict(first)


def test_zeroed_bytes_in_a_saved_state_are_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """torch reads them without a word, and the run would go on from nonsense."""
    path = tmp_path / "state.pt"
    torch.save({"epoch": 3, "model": torch.arange(1000, dtype=torch.float32)}, path)
    assert load_state_file(path) is not None
    with zipfile.ZipFile(path) as archive:
        (part,) = [item for item in archive.infolist() if item.filename.endswith("data/0")]
    zero(path, at=part.header_offset + 1000, length=200)
    assert load_state_file(path) is None
    assert "its run starts anew" in caplog.text
