"""Two drivers of one sweep find each other in its storage, and a dead one keeps nobody away."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.folder import begin, read_settings
from sweeper.lease import FILE, Lease, at_the_sweep, other_driver
from tests.sweeper.conftest import SETTINGS
from trainables.storage import Storage, StorageError

BEAT = 0.02


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage((tmp_path / "bucket").as_uri())


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(BEAT)


def test_where_nobody_is_nobody_is_waited_for(storage: Storage, tmp_path: Path) -> None:
    told: list[str] = []
    assert other_driver(storage, tmp_path, told=told.append, patience=60) is None
    lease = Lease(storage, tmp_path / "one")
    lease.end()
    assert other_driver(storage, tmp_path, told=told.append, patience=60) is None
    assert told == []


def test_the_driver_of_the_same_folder_is_left_to_the_folders_lock(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    lease = Lease(storage, tmp_path / "one")
    assert other_driver(storage, tmp_path / "one", told=pytest.fail, patience=60) is None
    lease.end()


@pytest.mark.parametrize("other", ["host", "boot", "out"])
def test_one_of_a_machine_of_the_same_name_is_not_taken_for_it(storage: Storage, tmp_path: Path, other: str) -> None:
    (tmp_path / "one").mkdir()
    lease = Lease(storage, tmp_path / "one")
    lease.stop()
    said = json.loads(storage.read(FILE) or b"")
    storage.write(FILE, json.dumps({**said, other: "another"}).encode())
    told: list[str] = []
    assert other_driver(storage, tmp_path / "one", told=told.append, patience=0) is None
    assert len(told) == 1, "it was waited for"


def test_one_whose_folder_is_gone_is_waited_for(storage: Storage, tmp_path: Path) -> None:
    Lease(storage, tmp_path / "gone").stop()
    told: list[str] = []
    assert other_driver(storage, tmp_path / "gone", told=told.append, patience=0) is None
    assert len(told) == 1


def test_inside_the_sweep_the_driver_is_there_and_afterwards_not(storage: Storage, tmp_path: Path) -> None:
    def fail() -> None:
        assert storage.read(FILE) is not None
        raise KeyError

    with pytest.raises(KeyError), at_the_sweep(storage, tmp_path, told=pytest.fail):
        fail()
    assert storage.read(FILE) is None
    with at_the_sweep(None, tmp_path, told=pytest.fail):
        pass


def test_what_another_one_says_is_not_deleted(storage: Storage, tmp_path: Path) -> None:
    first, second = Lease(storage, tmp_path / "one"), Lease(storage, tmp_path / "two")
    first.end()
    assert json.loads(storage.read(FILE) or b"")["out"] == str(tmp_path / "two")
    second.end()
    assert storage.read(FILE) is None


@pytest.mark.parametrize("by_address", [True, False])
def test_resume_is_refused_while_a_driver_elsewhere_is_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_address: bool
) -> None:
    monkeypatch.setattr("sweeper.lease.PATIENCE", 3.0)
    settings = replace(SETTINGS, storage=(tmp_path / "bucket").as_uri())
    out, new = tmp_path / "here", tmp_path / "new"
    begin(settings, out)
    storage = read_settings(out).bucket
    assert storage is not None
    storage.write("sweep.json", (out / "sweep.json").read_bytes())
    lease = Lease(storage, tmp_path / "elsewhere", beat=BEAT)
    arguments = [storage.uri, "--out", str(new)] if by_address else [str(out)]
    done = CliRunner().invoke(main, ["resume", *arguments])
    lease.end()
    assert done.exit_code == 2, done.output
    assert "waiting 3 s to see whether it still does" in done.stderr
    assert "two that run one sweep would run its trials twice; end that one first" in done.stderr
    assert not new.exists()


def test_a_driver_elsewhere_that_lives_keeps_others_away(storage: Storage, tmp_path: Path) -> None:
    told: list[str] = []
    lease = Lease(storage, tmp_path / "one", beat=BEAT)
    reason = other_driver(storage, tmp_path / "two", told=told.append, patience=5.0) or ""
    lease.end()
    assert "a driver on " in reason
    assert f"wrote to {storage.uri}" in reason
    assert "end that one first" in reason
    assert len(told) == 1
    assert "waiting 5 s to see whether it still does" in told[0]


def test_one_that_died_does_not(storage: Storage, tmp_path: Path) -> None:
    lease = Lease(storage, tmp_path / "one", beat=BEAT)
    lease.stop()
    assert other_driver(storage, tmp_path / "two", told=lambda line: None, patience=0.3) is None
    assert other_driver(storage, tmp_path / "two", told=pytest.fail) is None, "nobody waits for it twice"


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"host": "x"}'])
def test_nor_does_a_file_that_says_nothing(storage: Storage, tmp_path: Path, content: bytes) -> None:
    storage.write(FILE, content)
    assert other_driver(storage, tmp_path, told=pytest.fail, patience=60) is None


def test_two_that_are_at_it_are_warned_once(storage: Storage, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = Lease(storage, tmp_path / "one", beat=BEAT)
    second = Lease(storage, tmp_path / "two", beat=10 * BEAT)
    with caplog.at_level(logging.WARNING):
        wait_until(lambda: "end one of the two" in caplog.text)
        time.sleep(30 * BEAT)
    first.end()
    second.end()
    assert 1 <= caplog.text.count("end one of the two") <= 2, "each of them once at most"


def test_a_storage_that_is_silent_for_a_while_ends_nothing(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(storage, tmp_path / "one", beat=BEAT)
    asked: list[object] = []

    def silent(*arguments: object) -> bytes:
        asked.append(arguments)
        raise StorageError("AWS Error NETWORK_CONNECTION")

    with monkeypatch.context() as away:
        away.setattr(Storage, "read", silent)
        wait_until(lambda: len(asked) > 2)
    at = json.loads(storage.read(FILE) or b"")["at"]
    wait_until(lambda: json.loads(storage.read(FILE) or b"")["at"] > at)
    lease.end()
