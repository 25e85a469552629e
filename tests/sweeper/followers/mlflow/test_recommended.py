"""The run tagged as recommended holds the weights and metrics of the epoch that the sweep recommends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.followers.mlflow import store
from sweeper.followers.mlflow.runs import Recommendation
from sweeper.followers.mlflow.store import ExperimentStore
from sweeper.store.event_log import EventLog
from tests.sweeper.followers.mlflow.conftest import EARLY, END, Sweep, digests, finish, make_checkpoint

OTHER = Recommendation("00000", "1", "checkpoints/00000-epoch-1", "Take epoch 1 of trial 00000.")


def epoch_runs(sweep: Sweep) -> list[Any]:
    return [run for run in sweep.runs() if "trial_id" not in run.data.tags]


def assert_holds(sweep: Sweep, run: Any, answer: Recommendation) -> None:
    """Assert that the run has the weights of the recommended epoch and no others, its metrics and its description."""
    kept = Path(sweep.client.download_artifacts(run.info.run_id, ""))
    assert [path.name for path in kept.iterdir()] == ["checkpoint"]
    assert digests(kept / "checkpoint") == digests(sweep.folder / answer.checkpoint)
    assert run.data.tags["mlflow.note.content"] == answer.description
    assert run.info.status == "FINISHED"
    if answer.epoch is not None:
        trial = EventLog(sweep.folder / "events.jsonl").state.trials[answer.trial_id]
        (report,) = (report for report in trial.candidates() if report.epoch == float(answer.epoch))
        assert run.data.metrics == report.values


def test_a_changed_answer_is_tagged_once_and_a_returning_answer_has_its_previous_run(trained: Sweep) -> None:
    found: dict[str, str] = {}
    for answer in (EARLY, OTHER, None, END, EARLY, OTHER):
        assert finish(trained, answer).pending == 0
        for run in trained.recommended:
            assert answer is not None
            assert found.setdefault(answer.run_key, run.info.run_id) == run.info.run_id
            assert_holds(trained, run, answer)
        former = [run for run in trained.runs() if run.data.tags.get("recommended") == "false"]
        assert not [run for run in former if "Take" in run.data.tags["mlflow.note.content"]]
        description = trained.parent.data.tags.get("mlflow.note.content", "")
        ids = [run.info.run_id for run in trained.recommended]
        assert (len(ids), [run_id for run_id in found.values() if run_id in description]) == (answer is not None, ids)
    assert (len(set(found.values())), found["00001"]) == (3, trained.trial("00001").info.run_id)
    assert len(epoch_runs(trained)) == 2


def test_metrics_that_are_measured_later_are_added_and_nothing_is_sent_twice(
    trained: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(trained, EARLY)
    session = trained.open()
    session.measure({"truth_ratio": 0.75})
    session.close()
    monkeypatch.setattr(
        ExperimentStore, "log_artifact", lambda *arguments, **options: pytest.fail("the checkpoint is sent again")
    )
    finish(trained, EARLY)
    (run,) = epoch_runs(trained)
    assert_holds(trained, run, EARLY)
    assert run.data.metrics["truth_ratio"] == 0.75
    assert len(trained.client.get_metric_history(run.info.run_id, "verbmem")) == 1


@pytest.mark.parametrize(
    ("name", "arrives"), [("create_run", True), ("end", False), ("link_or_copy", True), ("set_tags", False)]
)
def test_after_a_kill_at_any_request_there_is_one_whole_run(
    trained: Sweep, monkeypatch: pytest.MonkeyPatch, name: str, arrives: bool
) -> None:
    finish(trained, OTHER)
    former, killed = {run.info.run_id for run in trained.runs()}, list[str]()
    place = store if name == "link_or_copy" else ExperimentStore
    request = getattr(place, name)

    def killed_once(*args: Any, **options: Any) -> Any:
        is_new = name in ("create_run", "link_or_copy") or args[1].id not in former
        is_new &= name != "set_tags" or args[2].get("recommended") == "true"
        if killed or not is_new:
            return request(*args, **options)
        if arrives:
            request(*args, **options)
        killed.append(name)
        raise SystemExit  # ends the tracker's thread at once, as a kill does

    with monkeypatch.context() as patch:
        patch.setattr(place, name, killed_once)
        assert finish(trained, EARLY).pending
    assert killed
    for run in trained.recommended:
        assert_holds(trained, run, EARLY)
    finish(trained, EARLY)
    (run,) = trained.recommended
    assert_holds(trained, run, EARLY)
    assert len(epoch_runs(trained)) == 2


@pytest.mark.parametrize("is_named", [True, False], ids=["not downloaded yet", "not saved"])
def test_an_epoch_gets_its_checkpoint_when_the_checkpoint_exists(trained: Sweep, is_named: bool) -> None:
    folder = trained.folder / EARLY.checkpoint
    away = folder.rename(trained.folder / "away")
    summary = finish(trained, EARLY if is_named else replace(EARLY, checkpoint=""))
    assert summary.pending == is_named
    assert (EARLY.checkpoint in summary.message) == is_named
    assert len(trained.recommended) == (not is_named), "a run with a checkpoint is tagged when it has the checkpoint"
    away.rename(folder)
    assert finish(trained, EARLY).pending == 0
    (run,) = trained.recommended
    assert_holds(trained, run, EARLY)
    assert len(epoch_runs(trained)) == 1


def test_a_trials_own_run_is_tagged_when_its_files_have_come(sweep: Sweep) -> None:
    session = sweep.open(is_awaited=lambda trial_id: True)
    session.run("00001", checkpoint="checkpoints/00001")
    assert session.finish(front=(), recommended=END).pending == 2  # the trial, and the end of the sweep
    assert sweep.recommended == []
    make_checkpoint(sweep.folder / END.checkpoint)
    assert finish(sweep, END).pending == 0
    (run,) = sweep.recommended
    assert_holds(sweep, run, END)
