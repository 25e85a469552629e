"""An error names damaged models in the cache, and damaged scores are measured again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from search_spaces.common.checksums import CHECKSUMS, write_checksums
from tests.facts import assert_names
from tests.trainables.target.conftest import Preparation
from trainables.target.cache import TargetError
from trainables.target.training import require_undamaged


def zero(path: Path, *, at: int, length: int) -> None:
    """Overwrite a part of a file with zeros, as on a disk with lost blocks. The size stays the same."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(length))


def test_a_damaged_or_missing_file_of_a_cached_target_is_named(prepare: Preparation) -> None:
    folder = Path(prepare().path)
    for name in ("model.safetensors", "config.json", CHECKSUMS):
        whole = (folder / name).read_bytes()
        if name == "model.safetensors":
            zero(folder / name, at=len(whole) // 2, length=64)
        else:
            (folder / name).unlink()
        with pytest.raises(TargetError) as caught:
            prepare()
        assert_names(caught.value, folder, name)
        (folder / name).write_bytes(whole)


def test_each_block_of_a_large_file_counts_and_unreadable_checksums_are_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search_spaces.common.checksums._BLOCK", 16)
    (tmp_path / "weights").write_bytes(bytes(range(100)))
    write_checksums(tmp_path)
    for at in range(1, 100, 15):
        (tmp_path / "weights").write_bytes(bytes(range(100)))
        require_undamaged(tmp_path)
        zero(tmp_path / "weights", at=at, length=1)
        with pytest.raises(TargetError, match="weights"):
            require_undamaged(tmp_path)
    zero(tmp_path / CHECKSUMS, at=0, length=20)
    with pytest.raises(TargetError, match=CHECKSUMS):
        require_undamaged(tmp_path)


def test_a_damaged_baseline_is_measured_again(prepare: Preparation) -> None:
    first = prepare()
    (path,) = (prepare.cache / "baselines").iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:40], whole[:20] + bytes(len(whole) - 20), b"[]"):
        path.write_bytes(damaged)
        assert asdict(prepare()) == asdict(first)
