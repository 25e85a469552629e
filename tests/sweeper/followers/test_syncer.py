"""The files that driver and workers exchange through object storage, for which the tests use a local folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from search_spaces.common.front import Point
from sweeper.driver.open_sweep import OpenSweep
from sweeper.followers.syncer import Syncer, fetch_sweep
from sweeper.search.reuse import ReusableTrials
from sweeper.store.event_log import FILE
from sweeper.store.folder import begin, read_settings
from sweeper.store.state import SweepState
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import OUTCOME, SETTINGS, bare_sweep, end_trial, outcome, report, run_trial, running
from trainables.storage import Storage, StorageError
from trainables.worker.candidates import FRONT_FILE, read_front


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage((tmp_path / "bucket" / "sweep-1").as_uri())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out" / "checkpoints").mkdir(parents=True)
    return tmp_path / "out"


@pytest.fixture
def syncer(out: Path, storage: Storage) -> Iterator[Syncer]:
    made = Syncer(out, storage)
    yield made
    made.close()


def put_model(storage: Storage, name: str) -> str:
    """Put a model into the storage, as a worker does."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.safetensors").write_text(name)
        storage.put(Path(folder), f"checkpoints/{name}")
    return f"checkpoints/{name}"


def resume(out: Path, storage: Storage) -> None:
    """Open the sweep with another driver, which transfers the remaining files."""
    syncer = Syncer(out, storage)
    bare_sweep(out, syncer=syncer)
    assert syncer.finish_transfers() == []
    syncer.close()


@pytest.fixture
def sweep(out: Path, syncer: Syncer) -> OpenSweep:
    return bare_sweep(out, syncer=syncer)


def test_whole_lines_of_the_sweeps_files_are_stored_and_the_event_log_last(
    syncer: Syncer, out: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (out / "sweep.json").write_text("{}")
    (out / "trials.csv").write_text("trial_id\n00000\n000")
    (out / FILE).write_text("1\n2\n")
    (out / "plugins").mkdir()
    (out / "plugins" / "own.py").write_text("x = 1\n")
    for name in (".lock", ".stop-1.json", "optuna.log.lock", "x.txt"):
        (out / name).write_text("")
    (out / "checkpoints" / "00000").mkdir()
    written, write = list[str](), Storage.write

    def writing(self: Storage, name: str, content: bytes) -> None:
        if not written:  # an event comes and a file is deleted meanwhile
            (out / FILE).write_text("1\n2\n3\n")
            (out / "x.txt").unlink()
        written.append(name)
        write(self, name, content)

    monkeypatch.setattr(Storage, "write", writing)
    syncer.flush(SweepState())
    syncer.finish_transfers()
    assert storage.read("trials.csv") == b"trial_id\n00000\n", "a torn row is left out"
    assert sorted(written) == [FILE, "plugins/own.py", "sweep.json", "trials.csv"]
    assert written[-1] == FILE
    assert storage.read(FILE) == b"1\n2\n", "files to which its events refer were read after it"
    assert syncer.close() is None
    assert storage.read(FILE) == b"1\n2\n3\n"
    assert written[4:] == [FILE], "the others have not changed"
    assert syncer.close() is None, "a second call does nothing"


def test_a_trial_that_ended_is_stored_at_once_and_a_report_from_time_to_time(
    sweep: OpenSweep, syncer: Syncer, storage: Storage
) -> None:
    syncer.finish_transfers()
    put_model(storage, "00000")
    for name in ("00000", "00001"):
        storage.write(f"ray/attempt-9/{name}/checkpoint_000000/state.pt", b"x")
    trial_id = run_trial(sweep, outcome=replace(OUTCOME, checkpoint="checkpoints/00000"))
    syncer.finish_transfers()
    assert storage.names("ray/attempt-9/00000", folders=True) == [], "the saved state of the trial"
    assert storage.names("ray/attempt-9/00001", folders=True) == ["checkpoint_000000"]
    assert f"\n{trial_id},".encode() in (storage.read("trials.csv") or b"")
    assert storage.read(FILE) == (sweep.out / FILE).read_bytes()
    assert (sweep.out / "checkpoints/00000").is_dir()
    run_trial(sweep, outcome=replace(OUTCOME, checkpoint="checkpoints/lost"))
    assert syncer.finish_transfers() == []
    assert syncer.models == {"checkpoints/00000"}
    report(sweep, running(sweep), 1)
    syncer.finish_transfers()
    assert storage.read(FILE) != (sweep.out / FILE).read_bytes()
    assert syncer.close() is None
    assert storage.read(FILE) == (sweep.out / FILE).read_bytes()


@pytest.mark.parametrize("is_killed", [False, True], ids=["by the same driver", "by the next driver"])
def test_the_files_of_a_trial_are_downloaded_when_the_storage_answers_again(
    sweep: OpenSweep, syncer: Syncer, storage: Storage, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    out, checkpoint = sweep.out, put_model(storage, "00000")
    storage.write("items/00000.json", b"{}")
    storage.write("logs/00001.txt", b"Traceback")
    with monkeypatch.context() as away:
        for name in ("put", "get", "write", "delete"):
            away.setattr(Storage, name, Mock(side_effect=StorageError("AWS Error NETWORK_CONNECTION")))
        run_trial(sweep, outcome=replace(OUTCOME, checkpoint=checkpoint))
        run_trial(sweep, outcome=outcome("failed", error="ValueError: no (see logs/00001.txt)"))
        assert checkpoint in syncer.finish_transfers()
        assert syncer.is_awaited("00000")
        if is_killed:
            assert syncer.close() == "AWS Error NETWORK_CONNECTION"
    if is_killed:
        resume(out, storage)
    else:
        assert syncer.finish_transfers() == []
        assert not syncer.is_awaited("00000")
    assert (out / "checkpoints/00000/model.safetensors").read_text() == "00000"
    assert (out / "items/00000.json").is_file()
    assert (out / "logs/00001.txt").read_text() == "Traceback"


def epoch(sweep: OpenSweep, trial_id: str, number: int, forget: float, retain: float) -> None:
    """Report an epoch whose model the worker has put into the storage."""
    report(sweep, trial_id, number, forget_loss_capped=forget, retain_loss=retain, is_stored=True)


def checkpoints(out: Path) -> list[str]:
    return [row["checkpoint"] for row in ResultTables(out).candidates.read()]


def models(storage: Storage) -> list[str]:
    return storage.names("checkpoints", folders=True)


def test_a_dominated_epoch_leaves_the_storage_and_workers_can_read_the_front(
    sweep: OpenSweep, syncer: Syncer, storage: Storage, tmp_path: Path
) -> None:
    trial_id = running(sweep)
    for number, values in ((1, (1.0, 2.0)), (2, (2.0, 1.0))):
        put_model(storage, f"{trial_id}-epoch-{number}")
        epoch(sweep, trial_id, number, *values)
    syncer.finish_transfers()
    assert models(storage) == ["00000-epoch-2"]
    assert checkpoints(sweep.out)[-1] == "checkpoints/00000-epoch-2"
    storage.get(FRONT_FILE, tmp_path / "seen" / FRONT_FILE)
    assert read_front(tmp_path / "seen") == [Point((2.0, 1.0))]
    sweep.tables.rewrite(sweep.log.state)
    assert checkpoints(sweep.out) == ["", "checkpoints/00000-epoch-2"]
    assert sweep.checkpoints.fetch_models() == []
    assert (sweep.out / "checkpoints/00000-epoch-2/model.safetensors").is_file()


def test_the_next_driver_deletes_only_models_that_are_stored_and_not_on_the_front(
    sweep: OpenSweep, syncer: Syncer, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial_id = running(sweep)
    for number in (1, 2, 3):
        epoch(sweep, trial_id, number, float(number), 1.0)
    syncer.close()
    for name in ("00009", "00000-epoch-2", "00000-epoch-3"):  # the deletion of epoch 2 was lost
        put_model(storage, name)
    deleted, delete = list[str](), Storage.delete
    monkeypatch.setattr(Storage, "delete", lambda self, key: (deleted.append(key), delete(self, key)))
    resume(sweep.out, storage)
    assert deleted == ["checkpoints/00000-epoch-2"]
    assert models(storage) == ["00000-epoch-3", "00009"]
    assert checkpoints(sweep.out) == ["", "", "checkpoints/00000-epoch-3"]


def test_the_models_of_a_reused_trial_are_stored_once(
    tmp_path: Path, out: Path, syncer: Syncer, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "previous").mkdir()
    previous = bare_sweep(tmp_path / "previous")
    trial_id = running(previous)
    epoch(previous, trial_id, 1, 1.0, 1.0)
    for name in (trial_id, f"{trial_id}-epoch-1"):
        (previous.out / "checkpoints" / name).mkdir(parents=True)
        (previous.out / "checkpoints" / name / "model.safetensors").write_text(name)
    end_trial(previous, trial_id)
    sweep = bare_sweep(out, syncer=syncer, reusable=ReusableTrials([previous.out]))
    with monkeypatch.context() as away:
        away.setattr(Storage, "put", Mock(side_effect=StorageError("AWS Error NETWORK_CONNECTION")))
        assert sweep.controller.queue_next()
        syncer.finish_transfers()
    assert models(storage) == []
    syncer.finish_transfers()
    syncer.close()
    assert models(storage) == ["00000", "00000-epoch-1"]
    stored, put = list[str](), Storage.put
    monkeypatch.setattr(Storage, "put", lambda self, path, key: (stored.append(key), put(self, path, key)))
    resume(out, storage)
    assert [key for key in stored if key.startswith("checkpoints/")] == []


def test_a_folder_is_rebuilt_from_the_files_of_the_driver(tmp_path: Path, storage: Storage) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, tmp_path / "other" / "first"):
        begin(replace(SETTINGS, storage=storage.parent.uri), out)
    buckets = [read_settings(out).bucket for out in (first, tmp_path / "other" / "first")]
    assert len({bucket.uri for bucket in buckets if bucket}) == 2, "two sweeps of one name do not meet"
    assert {(bucket.name[:6], bucket.parent.uri) for bucket in buckets if bucket} == {("first-", storage.parent.uri)}
    files = {FILE: "", "trials.csv": "trial_id\n00000\n"}
    items = {"items/00000-epoch-2.json": "[]", "items/never-saw-7e5a.json": "{}", "items/target-7e5a.json": "{}"}
    files |= items
    (first / "items").mkdir()
    for name, content in files.items():
        (first / name).write_text(content)
    (first / "items" / "00000.json").write_text("a worker stores this file")
    Syncer(first, storage).close()
    assert sorted(storage.names("items", folders=False)) == [Path(name).name for name in items]
    storage.write("items/00000.json", b"downloaded with the checkpoint of the trial")
    assert fetch_sweep(storage, second)
    assert read_settings(second) == read_settings(first)
    assert {name: (second / name).read_text() for name in files} == files
    assert not (second / "driver.json").exists()
    assert not (second / "items" / "00000.json").exists()
    nothing = Storage((tmp_path / "nothing").as_uri())
    nothing.write("note.txt", b"x")
    assert not fetch_sweep(nothing, tmp_path / "third")
    assert not (tmp_path / "third").exists()
