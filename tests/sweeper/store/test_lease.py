"""Two drivers of one sweep detect each other through its storage, and a dead driver does not block the sweep."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeper.store.folder import begin, read_settings
from sweeper.store.lease import FILE, hold_lease, other_driver
from tests.sweeper.cli.conftest import invoke, names
from tests.sweeper.conftest import SETTINGS, wait_until
from trainables.storage import Storage, StorageError

INTERVAL = 0.02


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage((tmp_path / "bucket").as_uri())


def test_without_another_driver_nothing_is_waited_for(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with contextlib.suppress(KeyError), hold_lease(storage, tmp_path / "one", say=pytest.fail):
        assert storage.read(FILE) is not None
        assert other_driver(storage, tmp_path / "one", say=pytest.fail) is None, "the folder's own lock is enough"
        raise KeyError
    assert storage.read(FILE) is None
    for damaged in (b"{", b"[1]", b'{"host": "x"}'):
        storage.write(FILE, damaged)
        assert other_driver(storage, tmp_path, say=pytest.fail) is None


@pytest.mark.parametrize("changed", ["host", "boot", "out", None])
def test_a_driver_of_another_machine_or_of_a_deleted_folder_is_waited_for(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str | None
) -> None:
    monkeypatch.setattr("sweeper.store.lease.TIMEOUT", 0.0)
    if changed:
        (tmp_path / "one").mkdir()
    with hold_lease(storage, tmp_path / "one", say=pytest.fail):
        content = json.loads(storage.read(FILE) or b"")
    storage.write(FILE, json.dumps(content | ({changed: "another"} if changed else {})).encode())
    announced = list[str]()
    for _ in range(2):
        assert other_driver(storage, tmp_path / "one", say=announced.append) is None
    assert len(announced) == 1, "nobody waits twice for a dead driver"


@pytest.mark.slow
@pytest.mark.parametrize("by_address", [True, False])
def test_resume_is_refused_while_a_driver_lives_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_address: bool
) -> None:
    monkeypatch.setattr("sweeper.store.lease.TIMEOUT", 3.0)
    settings = replace(SETTINGS, storage=(tmp_path / "bucket").as_uri())
    out, new = tmp_path / "here", tmp_path / "new"
    begin(settings, out)
    storage = read_settings(out).bucket
    assert storage is not None
    storage.write("sweep.json", (out / "sweep.json").read_bytes())
    with hold_lease(storage, tmp_path / "elsewhere", say=pytest.fail, interval=INTERVAL):
        done = invoke("resume", *([storage.uri, "--out", new] if by_address else [out]))
    assert done.exit_code == 2, done.output
    assert names(done.stderr, ["3 s", "bucket"])
    assert not new.exists()


def test_the_lease_of_another_driver_is_kept(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.store.lease.TIMEOUT", 0.0)  # the second considers the first dead
    with contextlib.ExitStack() as second:
        with hold_lease(storage, tmp_path / "one", say=str):
            second.enter_context(hold_lease(storage, tmp_path / "two", say=str))
        assert json.loads(storage.read(FILE) or b"")["out"] == str(tmp_path / "two")
    assert storage.read(FILE) is None


def test_two_drivers_are_warned_once(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sweeper.store.lease.TIMEOUT", 0.0)  # the second considers the first dead
    with (
        hold_lease(storage, tmp_path / "one", say=str, interval=INTERVAL),
        hold_lease(storage, tmp_path / "two", say=str, interval=10 * INTERVAL),
        caplog.at_level(logging.WARNING),
    ):
        wait_until(lambda: caplog.records)
        time.sleep(30 * INTERVAL)
    assert 1 <= len(caplog.records) <= 2, "each of them once at most"


def test_a_storage_that_is_silent_for_a_while_ends_nothing(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Mock(side_effect=StorageError("AWS Error NETWORK_CONNECTION"))
    with hold_lease(storage, tmp_path / "one", say=pytest.fail, interval=INTERVAL):
        with monkeypatch.context() as away:
            away.setattr(Storage, "read", silent)
            wait_until(lambda: silent.call_count > 2)
        before = storage.read(FILE)
        wait_until(lambda: storage.read(FILE) != before)
