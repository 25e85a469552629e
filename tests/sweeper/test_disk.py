"""What models take on disk is said, and where not even one fits nothing is begun."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from search_spaces.messages import size
from sweeper.disk import Disk, check_disk, disk_of
from sweeper.folder import SweepError
from trainables.data import Example
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import save_model
from trainables.models.tiny import make_tiny, tokenizer_for
from trainables.spec import TrialSpec


def tiny_llama() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    tokenizer = tokenizer_for("tiny-llama", [Example("What is it?", "It is so.")])
    return make_tiny("tiny-llama", tokenizer), tokenizer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of a tiny model, ``whole`` and as an ``adapter``, written under a umask of a shared folder."""
    folder = tmp_path_factory.mktemp("models")
    before = os.umask(0o007)
    try:
        model, tokenizer = tiny_llama()
        save_model(model, tokenizer, folder / "whole")
        save_model(add_adapter(model, rank=8, seed=0), tokenizer, folder / "adapter")
    finally:
        os.umask(before)
    return folder


def weights(folder: Path) -> list[Path]:
    return [*folder.glob("*.safetensors")]


@pytest.mark.parametrize("name", ["whole", "adapter"])
def test_weights_are_for_whom_the_umask_says(made: Path, name: str) -> None:
    files = [*(made / name).iterdir()]
    assert weights(made / name)
    assert {stat.filemode(path.stat().st_mode) for path in files} == {"-rw-rw----"}


@pytest.mark.parametrize(("rank", "name"), [(None, "whole"), (8, "adapter")])
def test_a_checkpoint_takes_what_was_said(made: Path, rank: int | None, name: str) -> None:
    said = disk_of(TrialSpec(lora_rank=rank), made / "whole", models=3, running=2)
    taken = sum(path.stat().st_size for path in weights(made / name))
    assert said.checkpoint == pytest.approx(taken, rel=0.05)
    assert said.state == 3 * said.checkpoint, "the weights and AdamW's two moments"
    assert said.bytes == 9 * said.checkpoint
    lean = disk_of(replace(TrialSpec(), optimizer="sgd"), made / "whole", models=1, running=1)
    assert lean.state < 3 * lean.checkpoint


def test_what_is_free_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, free = Disk(checkpoint=10**9, state=3 * 10**9, models=5, running=1), SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    out = tmp_path / "not" / "yet"
    free.free = 50 * 10**9
    told = check_disk(disk, out)
    assert told == f"disk: about 8.0 GB in {out} (5 checkpoints of 1.0 GB, 1 saved state of 3.0 GB), 50 GB are free"
    free.free = 5 * 10**9
    assert "may not do" in check_disk(disk, out)
    free.free = 3 * 10**9
    with pytest.raises(SweepError, match=r"take 4\.0 GB, and 3\.0 GB are free"):
        check_disk(disk, out)


def test_sizes_are_in_the_unit_that_fits() -> None:
    assert [size(count) for count in (7, 5_280_808, 4.1e8, 1.25e9, 9e12)] == [
        "7 B",
        "5.3 MB",
        "410 MB",
        "1.2 GB",
        "9.0 TB",
    ]
