"""The model tagged as recommended has the weights and metrics of the epoch that the sweep recommends."""

from __future__ import annotations

from typing import Any

import pytest

from sweeper.followers.mlflow import artifacts
from sweeper.followers.mlflow.runs import Recommendation
from sweeper.followers.mlflow.store import ExperimentStore
from sweeper.store.event_log import EventLog
from tests.sweeper.followers.mlflow.conftest import EARLY, END, KEPT, Sweep, digests, finish, folder_of, make_checkpoint

OTHER = Recommendation(("00000", 1.0), "Take epoch 1 of trial 00000.")


def name_of(answer: Recommendation) -> str:
    trial_id, epoch = answer.candidate
    return f"{trial_id} epoch {epoch:g}"


def assert_holds(sweep: Sweep, model: Any, answer: Recommendation) -> None:
    """Assert that a model has the weights of the recommended epoch and no others, its metrics and its description."""
    trial_id, epoch = answer.candidate
    assert (model.name, str(model.status)) == (name_of(answer), "READY")
    folder = f"checkpoints/{trial_id}" + (f"-epoch-{epoch:g}" if epoch != 3 else "")
    assert digests(folder_of(model)) == digests(sweep.folder / folder)
    assert model.tags["mlflow.note.content"] == answer.description
    trial = EventLog(sweep.folder / "events.jsonl").state.trials[trial_id]
    (report,) = (report for report in trial.candidates() if report.epoch == epoch)
    assert trial.outcome is not None
    values = report.values if epoch != 3 else trial.outcome.values
    assert {metric.key: metric.value for metric in model.metrics} == {**values, "epoch": epoch}
    assert {metric.step for metric in model.metrics} == {report.step}


def test_one_model_is_recommended_and_the_sweeps_run_links_to_it(trained: Sweep) -> None:
    for answer in (EARLY, OTHER, None, END, EARLY):
        assert finish(trained, answer).pending == 0
        for model in trained.recommended:
            assert answer is not None
            assert_holds(trained, model, answer)
        former = [model for model in trained.models().values() if model.tags.get("recommended") == "false"]
        assert not [model for model in former if "Take" in model.tags["mlflow.note.content"]]
        description = trained.parent.data.tags.get("mlflow.note.content", "")
        ids = [model.model_id for model in trained.recommended]
        newest = max(trained.models().values(), key=lambda model: model.creation_timestamp)
        assert answer is None or newest.model_id == ids[0], "MLflow's UI lists the newest model first"
        found = [model.model_id for model in trained.models().values() if model.model_id in description]
        assert (len(ids), found) == (answer is not None, ids)
    assert len(trained.runs()) == 3, "an epoch has no run of its own"


def test_metrics_that_are_measured_later_are_added_and_no_file_is_sent_twice(
    trained: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(trained, EARLY)
    assert finish(trained, EARLY).pending == 0
    before = {name: model.model_id for name, model in trained.models().items()}
    session = trained.open(kept=KEPT)
    session.measure({"truth_ratio": 0.75})
    session.close()
    monkeypatch.setattr(
        ExperimentStore, "log_model_files", lambda *arguments: pytest.fail("the checkpoint is sent again")
    )
    finish(trained, EARLY)
    (model,) = trained.recommended
    assert_holds(trained, model, EARLY)
    assert {metric.key: metric.value for metric in model.metrics}["truth_ratio"] == 0.75
    assert len(model.metrics) == len({metric.key for metric in model.metrics})
    assert {name: model.model_id for name, model in trained.models().items()} == before


@pytest.mark.parametrize(
    ("name", "arrives"),
    [
        *((name, True) for name in ("create_model", "add_outputs", "log_model_metrics", "link_or_copy")),
        *((name, False) for name in ("log_model_metrics", "log_model_files", "set_model_tags")),
    ],
)
def test_after_a_kill_at_any_request_each_model_is_in_mlflow_once_and_whole(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, name: str, arrives: bool
) -> None:
    killed: list[str] = []
    place: Any = artifacts if name == "link_or_copy" else ExperimentStore
    request = getattr(place, name)

    def killed_once(*args: Any, **options: Any) -> Any:
        if killed:
            return request(*args, **options)
        if arrives:
            request(*args, **options)
        killed.append(name)
        raise SystemExit  # ends the tracker's thread at once, as a kill does

    with monkeypatch.context() as patch:
        patch.setattr(place, name, killed_once)
        sweep.train()
        assert finish(sweep, EARLY).pending == 0 or killed
    assert killed
    finish(sweep, EARLY)
    (model,) = sweep.recommended
    assert_holds(sweep, model, EARLY)
    models = sweep.models()
    assert len(models) == 6
    for trial_id in ("00000", "00001"):
        expected = [(models[f"{trial_id} epoch {epoch}"].model_id, epoch) for epoch in (1, 2, 3)]
        outputs = [(item.model_id, item.step) for item in sweep.trial(trial_id).outputs.model_outputs]
        assert sorted(output for output in outputs if output in expected) == sorted(expected)


def test_a_model_is_recommended_when_mlflow_has_its_files(trained: Sweep) -> None:
    folder = trained.folder / "checkpoints" / "00001-epoch-2"
    away = folder.rename(trained.folder / "away")
    summary = finish(trained, EARLY)
    assert summary.pending == 1
    assert "checkpoints/00001-epoch-2" in summary.message
    assert trained.recommended == []
    away.rename(folder)
    assert finish(trained, EARLY).pending == 0
    (model,) = trained.recommended
    assert_holds(trained, model, EARLY)


def test_the_last_model_is_sent_when_its_files_have_come(sweep: Sweep) -> None:
    session = sweep.open(is_awaited=lambda trial_id: True)
    session.run("00001", checkpoint="checkpoints/00001")
    end = Recommendation(("00001", None), "Take the end of trial 00001.")
    assert session.finish(front=(), recommended=end).pending == 2  # the trial, and its model
    assert sweep.recommended == []
    make_checkpoint(sweep.folder / "checkpoints" / "00001")
    assert sweep.open().finish(front=(), recommended=end).pending == 0
    (model,) = sweep.recommended
    assert digests(folder_of(model)) == digests(sweep.folder / "checkpoints" / "00001")
