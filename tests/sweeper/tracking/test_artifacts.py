"""Checkpoints and tables in MLflow's store."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.sweeper.tracking.conftest import Sweep, make_checkpoint


def test_a_checkpoint_in_a_local_store_is_linked_and_mlflow_sees_it(sweep: Sweep, tmp_path: Path) -> None:
    import mlflow

    checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
    (sweep.folder / "items").mkdir()
    (sweep.folder / "items" / "00001.json").write_text("{}")
    session = sweep.open()
    session.end("00001", checkpoint="checkpoints/00001")
    session.close()

    run = sweep.trial("00001")
    assert run.info.artifact_uri.startswith((sweep.folder / "artifacts").as_uri())
    kept = sweep.folder / "artifacts" / run.info.run_id / "artifacts"
    for name in ("model.safetensors", "tokenizer/vocab.json"):
        assert (kept / "checkpoint" / name).stat().st_ino == (checkpoint / name).stat().st_ino
    listed = {item.path for item in sweep.client.list_artifacts(run.info.run_id)}
    assert listed == {"checkpoint", "00001.json"}
    listed = {item.path for item in sweep.client.list_artifacts(run.info.run_id, "checkpoint")}
    assert listed == {"checkpoint/model.safetensors", "checkpoint/tokenizer"}
    downloaded = mlflow.artifacts.download_artifacts(
        run_id=run.info.run_id, artifact_path="checkpoint", tracking_uri=sweep.uri, dst_path=str(tmp_path / "got")
    )
    assert Path(downloaded, "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()


def test_a_checkpoint_on_another_file_system_is_copied(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    checkpoint = make_checkpoint(sweep.folder / "checkpoints" / "00001")
    session = sweep.open()
    session.end("00001", checkpoint="checkpoints/00001")
    assert session.close().pending == 0
    kept = Path(sweep.folder, "artifacts", sweep.trial("00001").info.run_id, "artifacts", "checkpoint")
    assert (kept / "model.safetensors").read_bytes() == (checkpoint / "model.safetensors").read_bytes()
    assert (kept / "model.safetensors").stat().st_ino != (checkpoint / "model.safetensors").stat().st_ino


def test_tables_are_copied_so_that_a_resume_that_rewrites_them_updates_the_artifact(sweep: Sweep) -> None:
    sweep.folder.mkdir()
    table = sweep.folder / "report.html"
    (sweep.folder / "figures").mkdir()
    (sweep.folder / "figures" / "one.png").write_text("one")
    for text in ("one trial", "two trials"):
        table.write_text(text)
        session = sweep.open()
        artifacts = [table, sweep.folder / "figures"]
        session.tracker.sweep_ended(status="finished", metrics={}, artifacts=artifacts)
        assert session.close().pending == 0
        table.write_text("half written")
        (parent,) = sweep.parents()
        kept = sweep.folder / "artifacts" / parent.info.run_id / "artifacts"
        assert (kept / "report.html").read_text() == text
        assert (kept / "figures" / "one.png").read_text() == "one"


def test_a_checkpoint_that_is_gone_holds_up_nothing_and_is_named(sweep: Sweep) -> None:
    session = sweep.open()
    session.end("00001", checkpoint="checkpoints/00001")
    session.run("00002")
    summary = session.close()
    assert sweep.trial("00001").info.status == sweep.trial("00002").info.status == "FINISHED"
    assert summary.pending == 1
    assert str(sweep.folder / "checkpoints" / "00001") in str(summary.message)


def test_artifacts_that_cannot_be_kept_leave_the_trial_and_wait(sweep: Sweep) -> None:
    make_checkpoint(sweep.folder / "checkpoints" / "00001")
    obstacle = sweep.folder / "artifacts"
    obstacle.write_text("not a folder")
    session = sweep.open()
    session.end("00001", checkpoint="checkpoints/00001", utility=0.5)
    summary = session.close()
    assert sweep.trial("00001").info.status == "FINISHED"
    assert summary.pending == 1
    assert "not a directory" in str(summary.message)
    obstacle.unlink()
    assert sweep.open().close().pending == 0
    (kept,) = sweep.client.list_artifacts(sweep.trial("00001").info.run_id)
    assert kept.path == "checkpoint"
    assert sweep.points("00001", "utility") == [(0, 0.5)]


def test_a_sweep_folder_that_was_moved_still_delivers_its_checkpoints(sweep: Sweep, dead_uri: str) -> None:
    make_checkpoint(sweep.folder / "checkpoints" / "00001")
    session = sweep.open(uri=dead_uri)
    session.end("00001", checkpoint="checkpoints/00001")
    session.close()
    sweep.folder = sweep.folder.rename(sweep.folder.with_name("moved"))
    assert sweep.open().close().pending == 0
    (kept,) = sweep.client.list_artifacts(sweep.trial("00001").info.run_id)
    assert kept.path == "checkpoint"
