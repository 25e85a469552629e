"""The Ray wrapper, driven as Ray drives it but without a cluster: nothing a run does may raise out of ``step``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ray.tune.result import DONE, SHOULD_CHECKPOINT
from transformers import AutoModelForCausalLM, AutoTokenizer

from search_spaces import durable
from trainables import ray_trainable
from trainables.candidates import Goals, write_front
from trainables.ray_trainable import STATE_FILE, UnlearningTrainable, measure_checkpoint, read_state, worker_workspace
from trainables.run.failures import is_no_result
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.storage import Storage, StorageError
from trainables.target.shared import share_target
from trainables.target.target import Target

MakeWorker = Callable[..., UnlearningTrainable]


GOALS = (("forget_loss_capped", "max"), ("retain_loss", "min"))


def _config(spec: TrialSpec, trial_id: str = "t1", restore_from: str | None = None) -> dict[str, Any]:
    return {"spec": spec.to_dict(), "trial_id": trial_id, "restore_from": restore_from}


@pytest.fixture
def make_worker(target: Target, tmp_path: Path) -> MakeWorker:
    """A worker that has been set up: without the constructor, which would make Ray's own result folders."""

    def make(config: dict[str, Any], goals: Goals = ()) -> UnlearningTrainable:
        worker = UnlearningTrainable.__new__(UnlearningTrainable)
        worker.setup(config, target=target, out=str(tmp_path / "out"), cpus=1.0, gpus=0.0, goals=goals)
        return worker

    return make


def _steps(worker: UnlearningTrainable) -> list[dict[str, Any]]:
    """Results until the worker says it is done."""
    results = [worker.step()]
    while not results[-1][DONE]:
        results.append(worker.step())
    return results


def _numbers(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reports and outcome without times and places."""
    rows = [{**result["report"], **result.get("outcome", {})} for result in results]
    apart = {"checkpoint", "worker", "started_at", "first_step_at", "ended_at"}
    return [{name: row[name] for name in row if "seconds" not in name and name not in apart} for row in rows]


def _expected(spec: TrialSpec, workspace: Workspace) -> list[dict[str, Any]]:
    """What the run itself reports."""
    reports = list(UnlearningRun(spec, workspace))
    rows = [report.row() for report in reports]
    rows[-1] |= reports[-1].outcome()
    return [{name: row[name] for name in row if "seconds" not in name} for row in rows]


def test_a_trial_reports_what_its_run_reports_and_ends_with_an_outcome(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="ngdiff")
    before = time.time()
    worker = make_worker(_config(spec))
    results = _steps(worker)
    assert _numbers(results) == _expected(spec, workspace)
    assert [DONE in result and result[DONE] for result in results] == [False, True]
    assert "outcome" not in results[0]
    outcome = results[-1]["outcome"]
    assert before <= outcome["started_at"] <= outcome["first_step_at"] <= outcome["ended_at"] <= time.time()
    assert outcome["wall_seconds"] == pytest.approx(outcome["ended_at"] - outcome["started_at"])
    assert outcome["checkpoint"] == "checkpoints/t1"
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / outcome["checkpoint"])
    run = UnlearningRun(spec, workspace)
    list(run)
    assert all(torch.equal(one, other) for one, other in zip(loaded.parameters(), run.parameters, strict=True))


def test_a_worker_takes_trial_after_trial(make_worker: MakeWorker, make_spec: Any, workspace: Workspace) -> None:
    worker = make_worker(_config(make_spec(method="ga", lr=0.05), "first"))
    _steps(worker)
    spec = make_spec(method="ngdiff", seed=3)
    assert worker.reset_config(_config(spec, "second")) is True
    results = _steps(worker)
    assert _numbers(results) == _expected(spec, workspace)
    assert results[-1]["outcome"]["checkpoint"] == "checkpoints/second"


def test_a_run_that_raises_is_a_failed_trial_and_the_worker_lives(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path
) -> None:
    worker = make_worker(_config(make_spec(max_length=8)))  # no room for an answer
    (result,) = _steps(worker)
    assert result["outcome"]["status"] == "failed"
    error = result["outcome"]["error"]
    assert error.startswith("DataError: the prompt of 'Where does Ada live?' takes")
    assert error.endswith("(see logs/t1.txt)")
    assert "\n" not in error
    assert (tmp_path / "out" / "logs" / "t1.txt").read_text().startswith("Traceback")
    assert result[SHOULD_CHECKPOINT] is False
    worker.reset_config(_config(make_spec(), "next"))
    assert _steps(worker)[-1]["outcome"]["status"] == "finished"


def test_a_checkpoint_that_cannot_be_written_is_a_failed_trial_that_keeps_its_last_report(
    make_worker: MakeWorker, make_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ray_trainable, "save_model", full_disk)
    last = _steps(make_worker(_config(make_spec())))[-1]
    assert last["outcome"]["status"] == "failed"
    assert "No space left on device" in last["outcome"]["error"]
    assert last["report"]["epoch"] == 2.0
    assert "verbmem" in last["report"]


def test_a_diverged_trial_has_a_reason_and_no_checkpoint(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path
) -> None:
    outcome = _steps(make_worker(_config(make_spec(method="ga", lr=1e30))))[-1]["outcome"]
    assert (outcome["status"], outcome["checkpoint"]) == ("diverged", None)
    assert "step" in outcome["error"]
    assert not (tmp_path / "out" / "checkpoints").exists()


# The models of the epochs that may be on the front -------------------------------------------------------------------


def test_the_model_after_an_epoch_is_kept_as_it_was_then(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="ga", lr=1e-4, epochs=3)
    results = _steps(make_worker(_config(spec), GOALS))
    assert _numbers(results) == _expected(spec, workspace)
    folders = sorted(path.name for path in (tmp_path / "out" / "checkpoints").iterdir())
    assert folders == ["t1", "t1-epoch-1", "t1-epoch-2"]  # the last epoch's is the trial's own
    run = UnlearningRun(spec, workspace)
    next(run)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "checkpoints" / "t1-epoch-1")
    assert all(torch.equal(one, other) for one, other in zip(loaded.parameters(), run.parameters, strict=True))
    AutoTokenizer.from_pretrained(tmp_path / "out" / "checkpoints" / "t1-epoch-1")


def test_a_model_that_the_front_or_an_epoch_of_its_own_dominates_is_not_saved(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path
) -> None:
    write_front(tmp_path / "out", [(-100.0, 0.0)])
    _steps(make_worker(_config(make_spec()), GOALS))
    assert [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()] == ["t1"]
    write_front(tmp_path / "out", [])
    # Gradient descent on both sets forgets less and retains better: the first epoch is beaten in nothing but order.
    worker = make_worker(_config(make_spec(epochs=4), "t2"), (("retain_loss", "max"), ("forget_loss", "max")))
    reports = [result["report"] for result in _steps(worker)]
    pairs = [(report["retain_loss"], report["forget_loss"]) for report in reports[:-1]]
    unbeaten = [
        i for i, pair in enumerate(pairs) if not any(o != pair and o >= pair and o[1] >= pair[1] for o in pairs[:i])
    ]
    found = sorted(path.name for path in (tmp_path / "out" / "checkpoints").glob("t2-epoch-*"))
    assert found == [f"t2-epoch-{i + 1}" for i in unbeaten]


def test_an_adapter_is_kept_as_an_adapter(make_worker: MakeWorker, make_spec: Any, tmp_path: Path) -> None:
    _steps(make_worker(_config(make_spec(method="ga", lr=1e-4, lora_rank=2)), GOALS))
    names = {path.name for path in (tmp_path / "out" / "checkpoints" / "t1-epoch-1").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= names
    assert "model.safetensors" not in names


def test_a_disk_that_refuses_a_candidate_costs_the_candidate_and_not_the_trial(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = ray_trainable.save_model

    def full_disk(model: Any, tokenizer: Any, folder: Path) -> None:
        if "epoch" in folder.name:
            raise OSError(28, "No space left on device")
        save(model, tokenizer, folder)

    monkeypatch.setattr(ray_trainable, "save_model", full_disk)
    outcome = _steps(make_worker(_config(make_spec(method="ga", lr=1e-4)), GOALS))[-1]["outcome"]
    assert (outcome["status"], outcome["checkpoint"]) == ("finished", "checkpoints/t1")
    assert [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()] == ["t1"]


def test_a_diverged_epoch_says_that_its_losses_are_an_earlier_ones(make_worker: MakeWorker, make_spec: Any) -> None:
    results = _steps(make_worker(_config(make_spec(method="ga", lr=1e30)), GOALS))
    assert [result["report"].get("evaluated", True) for result in results] == [True] * (len(results) - 1) + [False]


@pytest.mark.parametrize("lora_rank", [None, 2], ids=["whole model", "adapter"])
def test_a_checkpoint_has_the_metrics_that_the_run_would_have_measured_there(
    make_worker: MakeWorker, make_spec: Any, target: Target, tmp_path: Path, lora_rank: int | None
) -> None:
    spec = make_spec(method="ga", lr=1e-4, lora_rank=lora_rank, metrics_every=1)
    report = make_worker(_config(spec), GOALS).step()["report"]
    folder = tmp_path / "out" / "checkpoints" / "t1-epoch-1"
    measured = measure_checkpoint(target, replace(spec, metrics_every=None), folder, cpus=1.0, gpus=0.0)
    assert measured == {name: report[name] for name in measured}
    assert {"verbmem", "utility"} <= measured.keys()


# Saving and restoring ------------------------------------------------------------------------------------------------


def test_a_saved_trial_goes_on_in_another_worker(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="gradnorm", epochs=3)
    expected = _expected(spec, workspace)
    worker = make_worker(_config(spec))
    worker.step()
    worker.save_checkpoint(str(tmp_path))
    by_ray = make_worker(_config(spec))
    by_ray.load_checkpoint(str(tmp_path))
    assert _numbers(_steps(by_ray)) == expected[1:]
    by_sweep = make_worker(_config(spec, restore_from=str(tmp_path)))
    assert _numbers(_steps(by_sweep)) == expected[1:]


def test_loading_takes_a_worker_in_mid_run_back(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="ngdiff", epochs=3)
    worker = make_worker(_config(spec))
    worker.step()
    worker.save_checkpoint(str(tmp_path))
    worker.step()
    worker.load_checkpoint(str(tmp_path))
    assert _numbers(_steps(worker)) == _expected(spec, workspace)[1:]


@pytest.mark.parametrize("damage", ["torn", "empty", "missing", "no folder", "not a state"])
def test_a_damaged_state_starts_the_trial_anew(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path, damage: str
) -> None:
    spec = make_spec(method="ngdiff")
    folder = tmp_path / "state"
    folder.mkdir()
    worker = make_worker(_config(spec))
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
    restored = make_worker(_config(spec, restore_from=str(folder)))
    assert _numbers(_steps(restored)) == _expected(spec, workspace)


def test_the_state_of_a_run_that_had_ended_starts_the_trial_anew(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    """Whoever interrupts a sweep may do so between a trial's end and its row, and its last report is lost."""
    spec = make_spec(method="ngdiff")
    worker = make_worker(_config(spec))
    _steps(worker)
    worker.save_checkpoint(str(tmp_path))
    assert (tmp_path / STATE_FILE).is_file()
    assert read_state(tmp_path) is None
    restored = make_worker(_config(spec, restore_from=str(tmp_path)))
    assert _numbers(_steps(restored)) == _expected(spec, workspace)


def test_a_trial_that_has_not_begun_saves_nothing_and_begins_when_restored(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec()
    make_worker(_config(spec)).save_checkpoint(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    restored = make_worker(_config(spec, restore_from=str(tmp_path)))
    assert _numbers(_steps(restored)) == _expected(spec, workspace)


def test_the_next_trial_does_not_start_from_the_last_ones_state(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    spec = make_spec(method="ngdiff")
    worker = make_worker(_config(spec))
    worker.step()
    worker.save_checkpoint(str(tmp_path))
    worker.load_checkpoint(str(tmp_path))
    worker.reset_config(_config(spec, "next"))
    assert _numbers(_steps(worker)) == _expected(spec, workspace)


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
    worker = make_worker(_config(make_spec(epochs=7)))
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
    worker = _distant(_config(spec), target, storage, tmp_path)
    results = _steps(worker)
    kept = [result["report"].pop("stored", False) for result in results]
    assert _numbers(results) == _expected(spec, workspace)
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
    first = _distant(_config(spec), target, storage, tmp_path)
    before = first.step()
    first.save_checkpoint(str(tmp_path))
    storage.put(tmp_path / STATE_FILE, f"ray/attempt-1/t1/checkpoint_000000/{STATE_FILE}")
    second = _distant(_config(spec, restore_from="ray/attempt-1/t1/checkpoint_000000"), target, storage, tmp_path)
    results = [before, *_steps(second)]
    for result in results:
        result["report"].pop("stored", None)
    assert _numbers(results) == _expected(spec, workspace)


def test_a_storage_that_refuses_is_why_a_trial_has_no_result(
    target: Target, storage: Storage, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = _distant(_config(make_spec(epochs=2)), target, storage, tmp_path)
    worker.step()

    def refuse(*arguments: Any, **given: Any) -> None:
        raise StorageError("AWS Error NETWORK_CONNECTION")

    monkeypatch.setattr(Storage, "put", refuse)
    outcome = _steps(worker)[-1]["outcome"]
    assert is_no_result(outcome["status"], outcome["error"])
    assert outcome["error"].startswith("the storage refuses or does not answer: ")


# The worker's workspace ----------------------------------------------------------------------------------------------


def test_a_process_keeps_one_workspace_for_all_its_trials(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_trainable, "_workspaces", {})
    first = worker_workspace(target, "cpu")
    assert worker_workspace(replace(target), "cpu") is first
    other = worker_workspace(replace(target, key="another"), "cpu")
    assert other is not first
    assert list(ray_trainable._workspaces.values()) == [other]


def test_setting_up_loads_nothing(make_worker: MakeWorker, make_spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray waits for it; the weights are loaded by the first step."""
    monkeypatch.setattr(ray_trainable, "_workspaces", {})
    worker = make_worker(_config(make_spec()))
    assert ray_trainable._workspaces == {}
    worker.step()
    assert len(ray_trainable._workspaces) == 1
