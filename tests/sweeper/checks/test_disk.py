"""The disk space of models is estimated, and a sweep is refused if one model does not fit."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeper.checks.disk import Disk, check_disk, estimate_disk
from sweeper.store.folder import SweepError
from trainables.data import Example
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import save_model
from trainables.models.tiny import make_tiny, tokenizer_for
from trainables.spec import TrialSpec


def test_an_adapter_has_the_estimated_size_and_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o007)
    try:
        tokenizer = tokenizer_for("tiny-llama", [Example("What is it?", "It is so.")])
        model = make_tiny("tiny-llama", tokenizer)
        save_model(model, tokenizer, tmp_path / "whole")
        save_model(add_adapter(model, rank=8, seed=0), tokenizer, tmp_path / "adapter")
    finally:
        os.umask(before)
    (weights,) = (tmp_path / "adapter").glob("*.safetensors")
    assert {stat.filemode(path.stat().st_mode) for path in weights.parent.iterdir()} == {"-rw-rw----"}
    disk = estimate_disk(TrialSpec(lora_rank=8), tmp_path / "whole", models=3, running=2)
    assert disk.checkpoint == pytest.approx(weights.stat().st_size, rel=0.05)
    assert disk.bytes == 9 * disk.checkpoint, "a saved state has the weights and AdamW's two moments"


def test_the_free_space_decides_between_a_line_a_warning_and_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, free = Disk(checkpoint=10**9, state=3 * 10**9, models=5, running=1), SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    out = tmp_path / "not" / "yet"
    free.free = 50 * 10**9
    line = check_disk(disk, out)
    assert all(fact in line for fact in (str(out), "8.0 GB", "1.0 GB", "3.0 GB", "50 GB"))
    free.free = 5 * 10**9
    assert len(check_disk(disk, out)) > len(line), "a warning is added"
    free.free = 3 * 10**9
    with pytest.raises(SweepError, match=r"4\.0 GB.* 3\.0 GB"):
        check_disk(disk, out)
