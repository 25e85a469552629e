"""The saved states of a trial, in a folder and through a storage: it goes on from them as if it had not stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ray.tune.result import SHOULD_CHECKPOINT

from search_spaces import durable
from tests.trainables.ray_worker import expected_of, numbers_of, steps_of, worker_config
from trainables.ray_trainable import STATE_FILE, UnlearningTrainable, read_state
from trainables.run.failures import is_no_result
from trainables.run.workspace import Workspace
from trainables.storage import Storage, StorageError
from trainables.target.shared import share_target
from trainables.target.target import Target

MakeWorker = Callable[..., UnlearningTrainable]

GOALS = (("forget_loss_capped", "max"), ("retain_loss", "min"))


def test_a_saved_trial_goes_on_in_another_worker(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="gradnorm", epochs=3)
    expected = expected_of(spec, workspace)
    worker = make_worker(worker_config(spec))
    worker.step()
    worker.save_checkpoint(str(tmp_path))
    by_ray = make_worker(worker_config(spec))
    by_ray.load_checkpoint(str(tmp_path))
    assert numbers_of(steps_of(by_ray)) == expected[1:]
    by_sweep = make_worker(worker_config(spec, restore_from=str(tmp_path)))
    assert numbers_of(steps_of(by_sweep)) == expected[1:]


def test_loading_takes_a_worker_in_mid_run_back(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="ngdiff", epochs=3)
    worker = make_worker(worker_config(spec))
    worker.step()
    worker.save_checkpoint(str(tmp_path))
    worker.step()
    worker.load_checkpoint(str(tmp_path))
    assert numbers_of(steps_of(worker)) == expected_of(spec, workspace)[1:]


@pytest.mark.parametrize("damage", ["torn", "empty", "missing", "no folder", "not a state"])
def test_a_damaged_state_starts_the_trial_anew(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path, damage: str
) -> None:
    spec = make_spec(method="ngdiff")
    folder = tmp_path / "state"
    folder.mkdir()
    worker = make_worker(worker_config(spec))
    worker.step()
    worker.save_checkpoint(str(folder))
    whole = (folder / STATE_FILE).read_bytes()
    if damage == "torn":
        (folder / STATE_FILE).write_bytes(whole[: len(whole) // 2])
    elif damage == "empty":
        (folder / STATE_FILE).write_bytes(b"")
    elif damage == "not a state":
        (folder / STATE_FILE).write_bytes(b"something else altogether")
    else:
        (folder / STATE_FILE).unlink()
    if damage == "no folder":
        folder.rmdir()
    assert read_state(folder) is None
    restored = make_worker(worker_config(spec, restore_from=str(folder)))
    assert numbers_of(steps_of(restored)) == expected_of(spec, workspace)


def test_the_state_of_a_run_that_had_ended_starts_the_trial_anew(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    """Whoever interrupts a sweep may do so between a trial's end and its row, and its last report is lost."""
    spec = make_spec(method="ngdiff")
    worker = make_worker(worker_config(spec))
    steps_of(worker)
    worker.save_checkpoint(str(tmp_path))
    assert (tmp_path / STATE_FILE).is_file()
    assert read_state(tmp_path) is None
    restored = make_worker(worker_config(spec, restore_from=str(tmp_path)))
    assert numbers_of(steps_of(restored)) == expected_of(spec, workspace)


def test_a_trial_that_has_not_begun_saves_nothing_and_begins_when_restored(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec()
    make_worker(worker_config(spec)).save_checkpoint(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    restored = make_worker(worker_config(spec, restore_from=str(tmp_path)))
    assert numbers_of(steps_of(restored)) == expected_of(spec, workspace)


def test_the_next_trial_does_not_start_from_the_last_ones_state(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="ngdiff")
    worker = make_worker(worker_config(spec))
    worker.step()
    worker.save_checkpoint(str(tmp_path))
    worker.load_checkpoint(str(tmp_path))
    worker.reset_config(worker_config(spec, "next"))
    assert numbers_of(steps_of(worker)) == expected_of(spec, workspace)


def test_states_are_saved_no_more_often_than_they_cost(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not within 15 s of the last one, nor while saving would take more than 2% of the time; never at the end."""
    now = 100.0
    save = torch.save

    def slow_save(*arguments: Any) -> None:
        nonlocal now
        now += 1.0
        save(*arguments)

    monkeypatch.setattr(torch, "save", slow_save)
    monkeypatch.setattr(durable, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    worker = make_worker(worker_config(make_spec(epochs=7)))
    due = []
    for now in (101.0, 114.5, 116.0, 140.0, 166.5, 167.5, 1000.0):
        due.append(worker.step()[SHOULD_CHECKPOINT])
        if now == 116.0:
            worker.save_checkpoint(str(tmp_path))  # until 117, so that 50 s of pause follow
    assert due == [False, False, True, False, False, True, False]


# Through a storage ----------------------------------------------------------------------------------------------------


@pytest.fixture
def storage(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A bucket that has the target, and a cache of this machine that has nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))
    made = Storage((tmp_path / "bucket").as_uri())
    share_target(target, made)
    return made


def _distant(config: dict[str, Any], target: Target, storage: Storage, tmp_path: Path) -> UnlearningTrainable:
    """A worker that does not see the sweep's folder."""
    worker = UnlearningTrainable.__new__(UnlearningTrainable)
    worker.setup(config, target=target, out=str(tmp_path / "out"), cpus=1.0, gpus=0.0, goals=GOALS, storage=storage)
    return worker


def test_what_a_worker_writes_is_in_the_storage_and_nowhere_else(
    target: Target, storage: Storage, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(epochs=2)
    worker = _distant(worker_config(spec), target, storage, tmp_path)
    results = steps_of(worker)
    kept = [result["report"].pop("stored", False) for result in results]
    assert numbers_of(results) == expected_of(spec, workspace)
    assert storage.has_folder(results[-1]["outcome"]["checkpoint"])
    assert any(kept)
    assert storage.has_folder("checkpoints/t1-epoch-1") == kept[0]
    assert not (tmp_path / "out").exists()
    scratch = worker._out
    assert not [path for path in scratch.rglob("*") if path.is_file()]
    worker.cleanup()
    assert not scratch.exists()


def test_a_worker_elsewhere_goes_on_from_a_state_in_the_storage(
    target: Target, storage: Storage, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(epochs=2)
    first = _distant(worker_config(spec), target, storage, tmp_path)
    before = first.step()
    first.save_checkpoint(str(tmp_path))
    storage.put(tmp_path / STATE_FILE, f"ray/attempt-1/t1/checkpoint_000000/{STATE_FILE}")
    second = _distant(worker_config(spec, restore_from="ray/attempt-1/t1/checkpoint_000000"), target, storage, tmp_path)
    results = [before, *steps_of(second)]
    for result in results:
        result["report"].pop("stored", None)
    assert numbers_of(results) == expected_of(spec, workspace)


def test_a_storage_that_refuses_is_why_a_trial_has_no_result(
    target: Target, storage: Storage, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = _distant(worker_config(make_spec(epochs=2)), target, storage, tmp_path)
    worker.step()

    def refuse(*arguments: Any, **given: Any) -> None:
        raise StorageError("AWS Error NETWORK_CONNECTION")

    monkeypatch.setattr(Storage, "put", refuse)
    outcome = steps_of(worker)[-1]["outcome"]
    assert is_no_result(outcome["status"], outcome["error"])
    assert outcome["error"].startswith("the storage refuses or does not answer: ")
