"""Checkpoints and tables in MLflow's store."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeper.followers.mlflow.artifacts import log_artifact, prepare_environment
from sweeper.followers.mlflow.stored import StoredModel
from tests.sweeper.followers.mlflow.conftest import Sweep, digests, folder_of, make_checkpoint


@pytest.mark.parametrize("is_linked", [True, False], ids=["local store", "another file system"])
def test_a_checkpoint_is_linked_or_copied_and_mlflow_sees_it(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, is_linked: bool
) -> None:
    if not is_linked:
        monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EXDEV, "Invalid cross-device link")))
    checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
    (sweep.folder / "items").mkdir()
    (sweep.folder / "items" / "00001.json").write_text("{}")
    session = sweep.open()
    session.run("00001", checkpoint="checkpoints/00001")
    assert session.close().pending == 0
    run_id, (model,) = sweep.trial("00001").info.run_id, sweep.models().values()
    kept = folder_of(model)
    assert digests(kept) == digests(checkpoint)
    assert (kept / "model.safetensors").samefile(checkpoint / "model.safetensors") == is_linked
    assert {item.path for item in sweep.client.list_artifacts(run_id)} == {"00001.json"}
    assert str(model.status) == "READY"


def test_tables_are_copied_so_that_a_resume_that_rewrites_them_updates_the_artifact(sweep: Sweep) -> None:
    sweep.folder.mkdir()
    table = sweep.folder / "report.html"
    (sweep.folder / "figures").mkdir()
    (sweep.folder / "figures" / "one.png").write_text("one")
    for text in ("one trial", "two trials"):
        table.write_text(text)
        session = sweep.open()
        artifacts = [table, sweep.folder / "figures"]
        assert session.finish(artifacts=artifacts).pending == 0
        table.write_text("half written")
        kept = sweep.folder / "artifacts" / sweep.parent.info.run_id / "artifacts"
        assert (kept / "report.html").read_text() == text
        assert (kept / "figures" / "one.png").read_text() == "one"


@pytest.mark.parametrize("is_gone", [True, False], ids=["it is gone", "the store refuses it"])
def test_a_checkpoint_that_cannot_be_kept_holds_up_nothing_is_named_and_arrives_later(
    sweep: Sweep, is_gone: bool
) -> None:
    checkpoint, obstacle = sweep.folder / "checkpoints" / "00001", sweep.folder / "artifacts"
    session = sweep.open()
    if not is_gone:
        make_checkpoint(checkpoint)
        obstacle.write_text("not a folder")
    session.run("00001", checkpoint="checkpoints/00001")
    session.run("00002")
    summary = session.close()
    assert sweep.trial("00001").info.status == sweep.trial("00002").info.status == "FINISHED"
    assert summary.pending == (1 if is_gone else 2), "a store that refuses is asked again before other trials' files"
    assert str(sweep.models()["00001 epoch 3"].status) == "PENDING"
    assert (str(checkpoint) if is_gone else "not a directory") in summary.message
    if is_gone:
        make_checkpoint(checkpoint)
    else:
        obstacle.unlink()
    assert sweep.open().close().pending == 0
    (model,) = sweep.models().values()
    assert digests(folder_of(model)) == digests(checkpoint)
    assert sweep.points("00001", "utility") == [(3, 0.5)]


def test_a_server_has_ten_minutes_to_store_an_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    prepare_environment()
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77", "a limit of the user is kept"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0", "a repeated request could create a run twice"
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT")
    prepare_environment()
    source = make_checkpoint(tmp_path / "checkpoint")
    client, limits = Mock(), list[str]()
    client.log_model_artifacts.side_effect = lambda *_: limits.append(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"])
    log_artifact(client, StoredModel("m-1", "mlflow-artifacts:/0/models/m-1"), source)
    client.log_model_artifacts.assert_called_once_with("m-1", str(source), None)
    assert (limits, os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"]) == (["600"], "15")


def test_a_table_replaces_the_table_of_the_previous_session(sweep: Sweep) -> None:
    for text in ("one", "two"):
        session = sweep.open()
        session.run("00001")
        table = {"columns": ["prompt", "answer"], "data": [["Q", text]]}
        assert session.finish(tables={"sweep": table, "00001": table, "00009": table}).pending == 0
        for run in (sweep.parent, sweep.trial("00001")):
            kept = sweep.folder / "artifacts" / run.info.run_id / "artifacts" / "answers.json"
            assert json.loads(kept.read_text()) == table
            assert json.loads(run.data.tags["mlflow.loggedArtifacts"]) == [{"path": "answers.json", "type": "table"}]
