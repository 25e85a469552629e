"""The target in a sweep's storage: there once, and fetched once by a machine that does not have it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from search_spaces.checksums import write_checksums
from trainables.storage import Storage, StorageError
from trainables.target import shared
from trainables.target.shared import fetch_target, place_of, share_target
from trainables.target.target import Target


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage((tmp_path / "bucket").as_uri())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))
    monkeypatch.setattr(shared, "_at_hand", {})
    return tmp_path / "node" / "sweeper" / "targets"


def made(folder: Path, *, trained: bool = True) -> Target:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("weights")
    (folder / "optimizer.pt").write_text("never read")
    if trained:
        (folder / "target.json").write_text("{}")
        write_checksums(folder)
    return cast(Target, SimpleNamespace(key="0123456789abcdef", path=str(folder)))


def no_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*arguments: Any) -> None:
        raise AssertionError("it was fetched")

    monkeypatch.setattr(Storage, "get", get)


def test_it_is_put_there_once(tmp_path: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    target = made(tmp_path / "cache" / "made-from")
    share_target(target, storage)
    names = ["checksums.crc32", "model.safetensors", "target.json"]
    assert storage.files("targets/0123456789abcdef") == names

    def put(*arguments: Any, **given: Any) -> None:
        raise AssertionError("it was put there again")

    monkeypatch.setattr(Storage, "put", put)
    share_target(target, storage)


def test_a_machine_that_has_it_fetches_nothing(
    tmp_path: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = made(tmp_path / "cache" / "made-from")
    share_target(target, storage)
    no_fetching(monkeypatch)
    assert place_of(target.key, Path(target.path), storage) == Path(target.path)


def test_another_one_fetches_it_once_into_its_cache(
    tmp_path: Path, storage: Storage, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = made(tmp_path / "cache" / "made-from")
    share_target(target, storage)
    elsewhere = tmp_path / "not-mounted" / "made-from"
    assert place_of(target.key, elsewhere, storage) == cache / "made-from", "where a sweep there would look for it"
    assert (cache / "made-from" / "model.safetensors").read_text() == "weights"
    no_fetching(monkeypatch)
    assert place_of(target.key, elsewhere, storage) == cache / "made-from"


def test_a_folder_of_the_same_name_with_another_content_is_not_taken(
    tmp_path: Path, storage: Storage, cache: Path
) -> None:
    target = made(tmp_path / "models" / "mine", trained=False)
    share_target(target, storage)
    other = tmp_path / "node-models" / "mine"
    other.mkdir(parents=True)
    (other / "model.safetensors").write_text("WEIGHTS")
    assert place_of(target.key, other, storage) == cache / target.key
    assert (other / "model.safetensors").read_text() == "WEIGHTS"


def test_a_damaged_one_is_fetched_again(tmp_path: Path, storage: Storage, cache: Path) -> None:
    target = made(tmp_path / "cache" / "made-from")
    share_target(target, storage)
    place_of(target.key, tmp_path / "nowhere" / "made-from", storage)
    (cache / "made-from" / "model.safetensors").write_text("zeroed!")
    place_of(target.key, tmp_path / "nowhere" / "made-from", storage)
    assert (cache / "made-from" / "model.safetensors").read_text() == "weights"


def test_a_driver_elsewhere_finds_it_where_it_would_train_it(tmp_path: Path, storage: Storage, cache: Path) -> None:
    target = made(tmp_path / "cache" / "made-from")
    share_target(target, storage)
    fetch_target(target.key, tmp_path / "gone" / "made-from", storage)
    assert (cache / "made-from" / "target.json").is_file()


def test_a_target_that_is_nowhere_is_the_storages_fault(tmp_path: Path, storage: Storage) -> None:
    with pytest.raises(StorageError, match="no such target"):
        place_of("f" * 16, tmp_path / "x", storage)


def test_without_a_storage_all_see_the_same_folder(tmp_path: Path) -> None:
    target = made(tmp_path / "cache" / "made-from")
    assert shared.target_at_hand(target, None) is target
