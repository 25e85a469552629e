"""What driver and workers exchange through a storage, here a shared folder: all storages are one class."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sweeper.session import NO_ANSWER, SweepSession

from sweeper.followers.checkpoints import CheckpointManager
from sweeper.followers.syncer import Syncer, fetch_sweep
from sweeper.store.folder import begin, read_settings
from sweeper.store.saved_states import attempts, run_state_keys
from tests.sweeper.conftest import OUTCOME, SETTINGS, bare_session, run_trial
from trainables.candidates import FRONT_FILE, read_front
from trainables.run.failures import NO_STORAGE
from trainables.storage import Storage, StorageError

PutModel = Callable[[str], str]
GOALS = (("forget_loss_capped", "max"), ("retain_loss", "min"))


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


@pytest.fixture
def put_model(storage: Storage, tmp_path: Path) -> PutModel:
    """Puts a model into the storage, as a worker does."""

    def put(name: str) -> str:
        folder = tmp_path / "worker" / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text(name)
        storage.put(folder, f"checkpoints/{name}")
        return f"checkpoints/{name}"

    return put


def refuse(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the storage does not answer."""

    def silent(*arguments: object, **given: object) -> None:
        raise StorageError("AWS Error NETWORK_CONNECTION")

    for name in ("put", "get", "read", "write", "delete", "names"):
        monkeypatch.setattr(Storage, name, silent)


def test_whole_rows_of_the_tables_are_mirrored_at_once_or_now_and_then(
    syncer: Syncer, out: Path, storage: Storage
) -> None:
    (out / "sweep.json").write_text("{}")
    (out / "trials.csv").write_text("trial_id\n00000\n000")
    (out / "plugins").mkdir()
    (out / "plugins" / "own.py").write_text("x = 1\n")
    (out / ".lock").write_text("")
    (out / "checkpoints" / "00000").mkdir()
    syncer.written(urgent=True)
    syncer.settle()
    assert storage.read("trials.csv") == b"trial_id\n00000\n", "a torn row is none"
    assert storage.files() == ["plugins/own.py", "sweep.json", "trials.csv"]
    (out / "history.csv").write_text("step\n1\n")
    syncer.written(urgent=False)
    syncer.settle()
    assert storage.read("history.csv") is None
    assert syncer.close() is None
    assert storage.read("history.csv") == b"step\n1\n"
    assert syncer.close() is None, "closed twice it ends once"


def test_what_a_trial_left_comes_into_the_folder_now_or_later(
    syncer: Syncer, out: Path, storage: Storage, put_model: PutModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"trial_id": "00001", "status": "finished", "checkpoint": put_model("00001"), "error": None}
    storage.write("items/00001.json", b"{}")
    with monkeypatch.context() as away:
        refuse(storage, away)
        syncer.expect(row)
        assert "checkpoints/00001" in syncer.settle()
        assert syncer.is_awaited("00001")
    assert syncer.settle() == []
    assert (out / "checkpoints/00001/model.safetensors").read_text() == "00001"
    assert (out / "items/00001.json").is_file()
    assert not syncer.is_awaited("00001")
    storage.write("logs/00002.txt", b"Traceback")
    syncer.expect({"trial_id": "00002", "status": "failed", "error": "ValueError: no (see logs/00002.txt)"})
    syncer.settle()
    assert (out / "logs/00002.txt").read_text() == "Traceback"


def test_a_mirror_that_failed_is_reported_at_the_end(
    syncer: Syncer, out: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (out / "trials.csv").write_text("trial_id\n00000\n")
    refuse(storage, monkeypatch)
    syncer.written(urgent=True)
    assert syncer.close() == "AWS Error NETWORK_CONNECTION"


def test_states_of_all_attempts_are_found_newest_first_and_deleted_with_their_trial(
    syncer: Syncer, storage: Storage
) -> None:
    for place in ("attempt-9/00001/checkpoint_000001", "attempt-10/00001/checkpoint_000000", "attempt-9/00002/c"):
        storage.write(f"ray/{place}/state.pt", b"x")
    assert attempts(storage) == ["attempt-10", "attempt-9"]
    assert run_state_keys(storage, "00001") == [
        "ray/attempt-10/00001/checkpoint_000000",
        "ray/attempt-9/00001/checkpoint_000001",
    ]
    syncer.forget("00001")
    syncer.settle()
    assert storage.files() == ["ray/attempt-9/00002/c/state.pt"]


def report(epoch: float, forget: float, retain: float) -> dict[str, object]:
    return {"step": int(epoch), "epoch": epoch, "forget_loss_capped": forget, "retain_loss": retain, "stored": True}


def test_a_dominated_epoch_leaves_the_storage_and_workers_can_read_the_front(
    syncer: Syncer, out: Path, storage: Storage, put_model: PutModel, tmp_path: Path
) -> None:
    front = CheckpointManager(out, GOALS, syncer=syncer)
    for trial_id, epoch, values in (("00001", 1, (1.0, 2.0)), ("00001", 2, (2.0, 1.0))):
        syncer.stored(put_model(f"{trial_id}-epoch-{epoch}"))
        front.add(trial_id, report(epoch, *values))
    syncer.settle()
    assert storage.names("checkpoints", folders=True) == ["00001-epoch-2"]
    assert front.checkpoint("00001", 2) == "checkpoints/00001-epoch-2"
    assert front.checkpoint("00001", 1) == ""
    storage.get(FRONT_FILE, tmp_path / "seen" / FRONT_FILE)
    assert read_front(tmp_path / "seen") == [(-2.0, 1.0)]


def test_checkpoints_left_by_killed_drivers_are_removed_and_those_of_finished_trials_stay(
    out: Path, storage: Storage, put_model: PutModel
) -> None:
    put_model("00001"), put_model("00001-epoch-1"), put_model("00002-epoch-4")
    syncer = Syncer(out, storage)
    CheckpointManager(out, GOALS, syncer=syncer).take_up([{"trial_id": "00002", **report(4, 1.0, 1.0)}])
    syncer.settle()
    syncer.close()
    assert storage.names("checkpoints", folders=True) == ["00001", "00002-epoch-4"]


@pytest.fixture
def session(out: Path, syncer: Syncer) -> SweepSession:
    return bare_session(out, syncer=syncer)


def test_a_trial_that_ended_is_in_the_storage_before_the_next_one(
    session: SweepSession, syncer: Syncer, storage: Storage, put_model: PutModel
) -> None:
    put_model("00000")
    trial_id = run_trial(session, outcome=OUTCOME | {"checkpoint": "checkpoints/00000"})
    syncer.settle()
    assert f"\n{trial_id},".encode() in (storage.read("trials.csv") or b"")
    assert (session.tables.out / "checkpoints/00000").is_dir()


def test_a_storage_that_is_gone_ends_the_sweep_and_not_its_trials(session: SweepSession) -> None:
    run_trial(session, outcome={"status": "failed", "error": f"{NO_STORAGE}: AWS Error NETWORK_CONNECTION"})
    assert session.broken == NO_ANSWER
    assert session.next_trial() is None


def test_the_front_comes_into_the_folder_at_the_end(out: Path, syncer: Syncer, put_model: PutModel) -> None:
    front = CheckpointManager(out, GOALS, syncer=syncer)
    session = bare_session(out, syncer=syncer, front=front)
    syncer.stored(put_model("00001-epoch-2"))
    front.add("00001", report(2, 1.0, 1.0))
    assert session.bring_models() == []
    assert (out / "checkpoints/00001-epoch-2/model.safetensors").is_file()


# On another machine --------------------------------------------------------------------------------------------------


def test_a_sweep_is_named_in_its_storage_when_it_begins(tmp_path: Path) -> None:
    settings = replace(SETTINGS, storage=(tmp_path / "bucket").as_uri())
    for name in ("a", "b"):
        begin(settings, tmp_path / name / "sweep")
    one, other = (read_settings(tmp_path / name / "sweep").bucket for name in ("a", "b"))
    assert one is not None
    assert other is not None
    assert one.uri != other.uri, "two sweeps of one name do not meet"
    assert one.name.startswith("sweep-")
    assert one.above.uri == settings.storage


def test_a_folder_of_rays_states_is_no_bucket(tmp_path: Path) -> None:
    assert replace(SETTINGS, storage=str(tmp_path)).bucket is None
    assert SETTINGS.bucket is None
    assert SETTINGS.shared(tmp_path) == (tmp_path,)
    assert replace(SETTINGS, storage="s3://bucket/x").shared(tmp_path) == ()


def test_a_folder_is_made_from_the_mirrored_tables(tmp_path: Path, storage: Storage, out: Path) -> None:
    begin(replace(SETTINGS, storage=storage.above.uri), tmp_path / "first")
    (tmp_path / "first" / "trials.csv").write_text("trial_id\n00000\n")
    Syncer(tmp_path / "first", storage).close()
    assert fetch_sweep(storage, tmp_path / "second")
    assert read_settings(tmp_path / "second") == read_settings(tmp_path / "first")
    assert (tmp_path / "second" / "trials.csv").read_text() == "trial_id\n00000\n"
    assert not (tmp_path / "second" / "driver.json").exists()
    nothing = Storage((tmp_path / "nothing").as_uri())
    nothing.write("note.txt", b"x")
    assert not fetch_sweep(nothing, tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_no_credential_is_in_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    begin(replace(SETTINGS, storage="s3://bucket/x?scheme=http"), tmp_path / "sweep")
    text = (tmp_path / "sweep" / "sweep.json").read_text()
    assert json.loads(text)["settings"]["storage"] == "s3://bucket/x?scheme=http"
    assert "hidden" not in text
