"""The Ray trainable without a cluster. No error in a run may leave ``step``."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray.tune.result import DONE, SHOULD_CHECKPOINT
from transformers import AutoModelForCausalLM, AutoTokenizer

from search_spaces.common.front import Criteria, Point
from search_spaces.common.objective import Objective
from tests.facts import assert_names
from tests.trainables.ray_worker import CRITERIA, expected_of, numbers_of, steps_of, worker_config
from tests.trainables.runs import same_bits
from trainables.models.merging import Recipe
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.target.target import Target
from trainables.worker import process as worker_module
from trainables.worker import trial_files
from trainables.worker.candidates import write_front
from trainables.worker.process import measure_checkpoint, measure_merged_model, worker_workspace
from trainables.worker.ray_trainable import UnlearningTrainable

MakeWorker = Callable[..., UnlearningTrainable]


def test_a_trial_reports_what_its_run_reports_and_ends_with_an_outcome(
    make_worker: MakeWorker, make_spec: Any, workspace: Workspace, tmp_path: Path
) -> None:
    """This also holds if the worker ran another trial before."""
    spec = make_spec(method="ngdiff", lr=1e-4)
    worker = make_worker(worker_config(make_spec(method="ga", lr=0.05, max_steps=1), "first"), CRITERIA)
    steps_of(worker)
    before = time.time()
    assert worker.reset_config(worker_config(spec)) is True
    results = steps_of(worker)
    assert numbers_of(results) == expected_of(spec, workspace)
    assert [DONE in result and result[DONE] for result in results] == [False, True]
    assert results[0]["outcome"] is None
    row = results[-1]["outcome"].row()
    assert before <= row["started_at"] <= row["first_step_at"] <= row["ended_at"] <= time.time()
    assert 0.0 < row["wall_seconds"] <= row["ended_at"] - row["started_at"]
    assert row["checkpoint"] == "checkpoints/t1"
    run = UnlearningRun(spec, workspace)
    for name in ("t1-epoch-1", "t1"):  # the last epoch's model is the trial's model
        next(run)
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "checkpoints" / name)
        assert same_bits(loaded.parameters(), run.parameters)
        AutoTokenizer.from_pretrained(tmp_path / "out" / "checkpoints" / name)
    assert not (tmp_path / "out" / "checkpoints" / "t1-epoch-2").exists()


def test_a_target_that_is_written_to_between_two_trials_fails_the_second(
    make_worker: MakeWorker, target: Target, make_spec: Any, tmp_path: Path
) -> None:
    """The weights are memory-mapped, so the second trial would start from changed weights."""
    path = tmp_path / "target"
    shutil.copytree(target.path, path)
    spec = make_spec(max_steps=1)
    own = replace(target, key="of its own", path=str(path))
    worker = make_worker(worker_config(spec, "first"), targets={spec.target_key: own})
    assert steps_of(worker)[-1]["outcome"].status == "finished"
    file = path / "model.safetensors"
    with file.open("r+b") as weights:
        weights.seek(-4, os.SEEK_END)
        weights.write(b"\x00\x00\x80?")
    worker.reset_config(worker_config(spec, "second"))
    outcome = steps_of(worker)[-1]["outcome"]
    assert outcome.status == "failed"
    assert_names(outcome.error, file, "changed")


def test_a_run_that_raises_is_a_failed_trial_and_the_worker_lives(
    make_worker: MakeWorker, make_spec: Any, target: Target, tmp_path: Path
) -> None:
    short = replace(target, key="short", max_length=8)  # no room for an answer
    worker = make_worker(worker_config(make_spec()), targets={target.key: short})
    (result,) = steps_of(worker)
    assert result["outcome"].status == "failed"
    error = result["outcome"].error
    assert_names(error, "DataError", "'Where does Ada live?'", "logs/t1.txt")
    assert "\n" not in error
    assert (tmp_path / "out" / "logs" / "t1.txt").read_text().startswith("Traceback")
    assert result[SHOULD_CHECKPOINT] is False
    worker._targets = {target.key: target}
    worker.reset_config(worker_config(make_spec(max_steps=1), "next"))
    assert steps_of(worker)[-1]["outcome"].status == "finished"


@pytest.mark.parametrize(("full", "epoch"), [("t1-epoch-1", 1.0), ("t1", 2.0)])
def test_on_a_full_disk_a_trial_fails_with_its_last_report(
    make_worker: MakeWorker, make_spec: Any, monkeypatch: pytest.MonkeyPatch, full: str, epoch: float
) -> None:
    """The trial runs again at a resume. Otherwise, the model of an epoch on the frontier would be missing for good."""
    save = trial_files.save_model

    def refuse(model: Any, tokenizer: Any, folder: Path) -> None:
        if folder.name == full:
            raise OSError(28, "No space left on device")
        save(model, tokenizer, folder)

    monkeypatch.setattr(trial_files, "save_model", refuse)
    last = steps_of(make_worker(worker_config(make_spec(method="ga", lr=1e-4)), CRITERIA))[-1]
    assert last["outcome"].status == "failed"
    assert "No space left" in last["outcome"].error
    assert last["report"].epoch == epoch
    assert ("verbmem" in last["report"].metrics) == (epoch == 2.0)


def test_a_diverged_trial_has_a_reason_no_checkpoint_and_no_losses_of_its_last_epoch(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path
) -> None:
    results = steps_of(make_worker(worker_config(make_spec(method="ga", lr=1e30)), CRITERIA))
    outcome = results[-1]["outcome"]
    assert (outcome.status, outcome.checkpoint) == ("diverged", None)
    assert "step" in outcome.error
    assert not (tmp_path / "out" / "checkpoints").exists()
    assert [result["report"].evaluated for result in results] == [True] * (len(results) - 1) + [False]


def test_a_model_that_the_front_or_an_earlier_epoch_dominates_is_not_saved(
    make_worker: MakeWorker, make_spec: Any, tmp_path: Path
) -> None:
    write_front(tmp_path / "out", [Point((100.0, 0.0))])
    steps_of(make_worker(worker_config(make_spec()), CRITERIA))
    assert [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()] == ["t1"]
    write_front(tmp_path / "out", [])
    both_rise = Criteria(
        tuple(Objective(name=name, column=name, direction="max") for name in ("retain_loss", "forget_loss"))
    )
    # With these objectives, both losses are maximised.
    worker = make_worker(worker_config(make_spec(epochs=4), "t2"), both_rise)
    reports = [result["report"] for result in steps_of(worker)]
    pairs = [(report.losses["retain_loss"], report.losses["forget_loss"]) for report in reports[:-1]]
    unbeaten = [
        i for i, pair in enumerate(pairs) if not any(o != pair and o >= pair and o[1] >= pair[1] for o in pairs[:i])
    ]
    found = sorted(path.name for path in (tmp_path / "out" / "checkpoints").glob("t2-epoch-*"))
    assert found == [f"t2-epoch-{i + 1}" for i in unbeaten]


@pytest.mark.parametrize("lora_rank", [None, 2], ids=["whole model", "adapter"])
def test_a_checkpoint_has_the_metrics_that_the_run_would_have_measured_there(
    make_worker: MakeWorker, make_spec: Any, target: Target, tmp_path: Path, lora_rank: int | None
) -> None:
    spec = make_spec(method="ga", lr=1e-4, lora_rank=lora_rank, metrics_every=1)
    report = make_worker(worker_config(spec), CRITERIA).step()["report"]
    folder = tmp_path / "out" / "checkpoints" / "t1-epoch-1"
    measured = measure_checkpoint(target, replace(spec, metrics_every=None), folder, cpus=1.0, gpus=0.0).metrics
    assert measured == report.metrics
    assert {"verbmem", "utility"} <= measured.keys()


def test_a_merged_model_is_written_and_measured_like_a_checkpoint(
    make_worker: MakeWorker, make_spec: Any, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_workspaces", {})  # without the settings of attacks of an earlier task
    spec = make_spec(method="ga", lr=1e-4, metrics=("default", "sample"))
    make_worker(worker_config(replace(spec, metrics=())), CRITERIA).step()
    worker_module._workspaces.clear()
    folder = tmp_path / "out" / "checkpoints" / "t1-epoch-1"
    # Twice the mean of the model's vector and of the target's zero vector is the model's vector.
    merged = Recipe(
        folder=str(tmp_path / "merged"), unlearned=(str(folder), target.path), finetuned=(), checkpoint=None,
        rule="mean", scale=2.0,
    )  # fmt: skip
    losses, measurement, _ = measure_merged_model(target, spec, merged, cpus=1.0, gpus=0.0)
    expected = measure_checkpoint(target, spec, folder, cpus=1.0, gpus=0.0)
    assert measurement.metrics == pytest.approx(expected.metrics, abs=1e-4)
    assert {"forget_loss_capped", "retain_loss"} <= losses.keys()
    assert (tmp_path / "merged" / "model.safetensors").is_file()


def test_a_process_keeps_one_workspace_for_all_its_trials(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_workspaces", {})
    first = worker_workspace(target, "cpu")
    assert worker_workspace(replace(target), "cpu") is first
    other = worker_workspace(replace(target, key="another"), "cpu")
    assert other is not first
    assert list(worker_module._workspaces.values()) == [other]
