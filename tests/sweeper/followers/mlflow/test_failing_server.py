"""If the server fails, the sweep continues, and the waiting records are delivered exactly once."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sweeper.followers.mlflow.store import ExperimentStore
from tests.sweeper.conftest import wait_until
from tests.sweeper.followers.mlflow.conftest import THREE, Sweep, make_checkpoint


def test_a_server_that_never_answers_does_not_hold_up_the_end(sweep: Sweep, hung_uri: str) -> None:
    session = sweep.open(uri=hung_uri)
    session.run("00001")
    summary = session.close(timeout=1.0)
    assert summary.pending == 5
    assert hung_uri in summary.message


@pytest.mark.parametrize("kind", ["experiment", "run"])
def test_what_was_deleted_is_named_with_its_remedy_and_loses_nothing(sweep: Sweep, kind: str) -> None:
    known = "" if kind == "experiment" else str(sweep.open().close().run_id)
    deleted = known or sweep.client.create_experiment(sweep.experiment)
    getattr(sweep.client, f"delete_{kind}")(deleted)
    session = sweep.open()
    session.run("00001")
    summary = session.close()
    assert summary.pending == 5
    assert f"mlflow {kind}s restore --{kind}-id {deleted}" in summary.message
    getattr(sweep.client, f"restore_{kind}")(deleted)
    assert sweep.open().close().pending == 0
    assert sweep.points("00001") == THREE
    assert sweep.trial("00001").data.tags["mlflow.parentRunId"] == (known or sweep.parent.info.run_id)


def test_records_mlflow_refuses_hold_up_no_others_and_are_tried_again_by_the_next_session(sweep: Sweep) -> None:
    session = sweep.open()
    session.start("00001")
    session.close()
    run_id = sweep.trial("00001").info.run_id
    sweep.client.delete_run(run_id)

    session = sweep.open()
    session.report("00001", 1, forget_loss=1.0)
    session.run("00002")
    summary = session.close()
    assert sweep.trial("00002").info.status == "FINISHED"
    assert summary.pending == 1
    assert "deleted" in summary.message

    sweep.client.restore_run(run_id)
    assert sweep.open().close().pending == 0
    assert sweep.points("00001") == [(1, 1.0)]


@pytest.mark.parametrize(
    ("name", "arrives"),
    [
        *((name, True) for name in ("connect", "create_run", "log_metrics", "end", "log_artifact")),
        *((name, True) for name in ("create_model", "add_outputs", "log_model_metrics", "log_model_files")),
        *((name, False) for name in ("create_run", "log_metrics", "log_artifact", "create_model", "log_model_files")),
    ],
)
def test_a_request_that_fails_is_made_again_and_has_its_effect_once(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, name: str, arrives: bool
) -> None:
    request, calls = getattr(ExperimentStore, name), count()

    def fails_at_first(store: ExperimentStore, *args: Any, **given: Any) -> Any:
        times = next(calls)
        result = request(store, *args, **given) if arrives or times > 1 else None
        if times <= 1:
            raise ConnectionError("reset by peer")
        return result

    monkeypatch.setattr("sweeper.followers.mlflow.tracker._LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(ExperimentStore, name, fails_at_first)
    make_checkpoint(sweep.folder / "checkpoints" / "00001")
    (sweep.folder / "items").mkdir()
    (sweep.folder / "items" / "00001.json").write_text("{}")
    session = sweep.open()
    session.run("00001", checkpoint="checkpoints/00001")
    wait_until(lambda: session.tracker._delivery.pending() == 0)
    assert session.close().message == ""
    assert len(sweep.runs()) == 2
    assert (sweep.points("00001"), sweep.points("00001", "utility")) == (THREE, [(3, 0.5)])
    (model,) = sweep.models().values()
    assert (str(model.status), len(sweep.trial("00001").outputs.model_outputs)) == ("READY", 1)
    assert len(model.metrics) == 3


def test_an_upload_that_always_fails_holds_up_no_other_upload(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    log_model_files = ExperimentStore.log_model_files

    def fails_for_one(store: ExperimentStore, model: Any, source: Path) -> None:
        if source.name == "00001":
            raise ConnectionError("reset by peer")
        log_model_files(store, model, source)

    monkeypatch.setattr("sweeper.followers.mlflow.tracker._LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(ExperimentStore, "log_model_files", fails_for_one)
    session = sweep.open()
    for trial_id in ("00001", "00002"):
        make_checkpoint(sweep.folder / "checkpoints" / trial_id)
        session.run(trial_id, checkpoint=f"checkpoints/{trial_id}")
    wait_until(lambda: session.pending == 1)
    session.close()
    assert {name: str(model.status) for name, model in sweep.models().items()} == {
        "00001 epoch 3": "PENDING",
        "00002 epoch 3": "READY",
    }
