"""The target of a sweep is uploaded once, and downloaded once by each machine without the target."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from search_spaces.common.checksums import write_checksums
from trainables.storage import Storage, StorageError
from trainables.target import shared
from trainables.target.shared import fetch_target, local_folder, share_target
from trainables.target.target import Target


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage((tmp_path / "bucket").as_uri())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))
    monkeypatch.setattr(shared, "_local_targets", {})
    return tmp_path / "node" / "sweeper" / "targets"


def made(folder: Path, *, trained: bool = True) -> Target:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("weights")
    (folder / "optimizer.pt").write_text("never read")
    if trained:
        (folder / "target.json").write_text("{}")
        write_checksums(folder)
    return cast(Target, SimpleNamespace(key="0123456789abcdef", path=str(folder)))


def forbid(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise AssertionError(f"{name} was called")

    monkeypatch.setattr(Storage, name, fail)


@pytest.fixture
def target(tmp_path: Path, storage: Storage) -> Target:
    target = made(tmp_path / "cache" / "made-from")
    share_target(target, storage)
    return target


def test_a_target_is_uploaded_once_and_a_machine_that_has_the_target_downloads_nothing(
    target: Target, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are never read are not uploaded."""
    names = ["checksums.crc32", "model.safetensors", "target.json"]
    assert storage.names("targets/0123456789abcdef", folders=False) == names
    forbid(monkeypatch, "put")
    share_target(target, storage)
    forbid(monkeypatch, "get")
    assert local_folder(target.key, Path(target.path), storage) == Path(target.path)
    assert shared.local_target(target, None) is target, "without a storage all see the same folder"


def test_another_machine_downloads_the_target_once_into_its_cache(
    target: Target, tmp_path: Path, storage: Storage, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "not-mounted" / "made-from"
    weights = cache / "made-from" / "model.safetensors"
    assert local_folder(target.key, elsewhere, storage) == weights.parent, "where a sweep there would look for it"
    assert weights.read_text() == "weights"
    weights.write_text("zeroed!")
    assert local_folder(target.key, elsewhere, storage) == weights.parent
    assert weights.read_text() == "weights", "a damaged one is fetched again"
    weights.unlink()
    weights.parent.rename(tmp_path / "away")
    fetch_target(target.key, elsewhere, storage)
    assert weights.read_text() == "weights", "the driver stores a downloaded target in the folder of a trained target"
    forbid(monkeypatch, "get")
    assert local_folder(target.key, elsewhere, storage) == weights.parent


def test_a_folder_of_the_same_name_with_another_content_is_not_used(
    tmp_path: Path, storage: Storage, cache: Path
) -> None:
    target = made(tmp_path / "models" / "mine", trained=False)
    share_target(target, storage)
    other = tmp_path / "node-models" / "mine"
    other.mkdir(parents=True)
    (other / "model.safetensors").write_text("WEIGHTS")
    assert local_folder(target.key, other, storage) == cache / target.key
    assert (other / "model.safetensors").read_text() == "WEIGHTS"


def test_a_target_that_is_nowhere_is_an_error_of_the_storage(tmp_path: Path, storage: Storage) -> None:
    with pytest.raises(StorageError, match="f" * 16):
        local_folder("f" * 16, tmp_path / "x", storage)
