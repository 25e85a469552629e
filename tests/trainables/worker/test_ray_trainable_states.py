"""A trial that continues from a saved state, in a folder or a storage, gives the results of an uninterrupted trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ray import tune
from ray.tune.result import SHOULD_CHECKPOINT

from search_spaces.common import durable
from tests.trainables.ray_worker import CRITERIA, expected_of, numbers_of, steps_of, worker_config
from trainables.run.workspace import Workspace
from trainables.saved_state import STATE_FILE, read_state
from trainables.storage import Storage, StorageError
from trainables.target.shared import share_target
from trainables.target.target import Target
from trainables.worker.failures import NO_STORAGE, is_infrastructure_failure
from trainables.worker.ray_trainable import UnlearningTrainable

MakeWorker = Callable[..., UnlearningTrainable]


def test_a_saved_trial_continues_in_the_same_worker_and_in_another_one(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="gradnorm", epochs=3)
    expected = expected_of(spec, workspace)
    worker = make_worker(worker_config(spec))
    worker.step()
    worker.save_checkpoint(str(tmp_path))
    worker.step()
    for loading in (worker, make_worker(worker_config(spec))):
        loading.load_checkpoint(str(tmp_path))
        assert numbers_of(steps_of(loading)) == expected[1:]
    restored = make_worker(worker_config(spec, restore_from=str(tmp_path)))
    assert numbers_of(steps_of(restored)) == expected[1:]
    worker.load_checkpoint(str(tmp_path))
    worker.reset_config(worker_config(spec, "next"))
    assert numbers_of(steps_of(worker)) == expected, "the next trial does not start from the previous trial's state"


@pytest.mark.parametrize("state", ["torn", "no folder", "finished", "not started"])
def test_a_trial_without_a_state_to_continue_from_starts_again(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path, state: str
) -> None:
    """A finished run is repeated, because its last report was lost with its worker."""
    spec = make_spec(method="ngdiff")
    file = tmp_path / "state" / STATE_FILE
    file.parent.mkdir()
    worker = make_worker(worker_config(spec))
    if state == "finished":
        steps_of(worker)
    elif state != "not started":
        worker.step()
    worker.save_checkpoint(str(file.parent))
    assert file.is_file() == (state != "not started")
    if state == "torn":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif state == "no folder":
        file.unlink()
        file.parent.rmdir()
    assert read_state(file.parent) is None
    restored = make_worker(worker_config(spec, restore_from=str(file.parent)))
    assert numbers_of(steps_of(restored)) == expected_of(spec, workspace)


def test_states_are_saved_only_as_often_as_their_cost_allows(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is due at most every 15 s, only if saving takes at most 2% of the time, and never at the end."""
    now = 100.0
    save = torch.save

    def slow_save(*arguments: Any) -> None:
        nonlocal now
        now += 1.0
        save(*arguments)

    monkeypatch.setattr(torch, "save", slow_save)
    monkeypatch.setattr(durable, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    monkeypatch.setattr(tune.Trainable, "save", lambda worker, folder: worker.save_checkpoint(folder))
    worker = make_worker(worker_config(make_spec(epochs=7)))
    due = []
    for now in (101.0, 114.5, 116.0, 140.0, 166.5, 167.5, 1000.0):
        due.append(worker.step()[SHOULD_CHECKPOINT])
        if now == 116.0:
            worker.save(str(tmp_path))  # takes until 117, so the next state is due 50 s later
    assert due == [False, False, True, False, False, True, False]


@pytest.fixture
def storage(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage that has the target. The cache of this machine is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))
    made = Storage((tmp_path / "bucket").as_uri())
    share_target(target, made)
    return made


@pytest.fixture
def distant(make_worker: MakeWorker, storage: Storage) -> MakeWorker:
    """Return a function that makes a worker on a node without the sweep's folder."""
    return lambda config: make_worker(config, CRITERIA, storage=storage)


def test_a_worker_writes_to_the_storage_and_nowhere_else(
    distant: MakeWorker, storage: Storage, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(epochs=2)
    worker = distant(worker_config(spec))
    results = steps_of(worker)
    stored = [result["report"].is_stored for result in results]
    assert numbers_of(results) == expected_of(spec, workspace)
    assert storage.has_folder(results[-1]["outcome"].checkpoint)
    assert any(stored)
    assert storage.has_folder("checkpoints/t1-epoch-1") == stored[0]
    assert not (tmp_path / "out").exists()
    scratch = worker._files.out
    assert not [path for path in scratch.rglob("*") if path.is_file()]
    worker.cleanup()
    assert not scratch.exists()


def test_a_distant_worker_continues_from_a_state_in_the_storage(
    distant: MakeWorker, storage: Storage, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(epochs=2)
    first = distant(worker_config(spec))
    before = first.step()
    first.save_checkpoint(str(tmp_path))
    storage.put(tmp_path / STATE_FILE, f"ray/attempt-1/t1/checkpoint_000000/{STATE_FILE}")
    second = distant(worker_config(spec, restore_from="ray/attempt-1/t1/checkpoint_000000"))
    results = [before, *steps_of(second)]
    assert numbers_of(results) == expected_of(spec, workspace)


def test_a_storage_that_refuses_leaves_a_trial_without_result(
    distant: MakeWorker, make_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = distant(worker_config(make_spec(epochs=2)))
    worker.step()

    def refuse(*arguments: Any, **given: Any) -> None:
        raise StorageError("AWS Error NETWORK_CONNECTION")

    monkeypatch.setattr(Storage, "put", refuse)
    outcome = steps_of(worker)[-1]["outcome"]
    assert is_infrastructure_failure(outcome.status, outcome.error)
    assert outcome.error.startswith(NO_STORAGE)
