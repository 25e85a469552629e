"""What a session records, whom it notifies and when; and that no error of ours ends a sweep."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.followers.checkpoints import CheckpointManager
from sweeper.session import SweepSession
from sweeper.store.saved_states import remove_run_states, run_state_folders
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import OUTCOME, RecordingTracker, run_trial, running, states
from trainables.candidates import candidate_folder, read_front

GOALS = (("forget_loss_capped", "max"), ("retain_loss", "min"))


def report(epoch: int, forget: float, retain: float) -> dict[str, Any]:
    losses = {"forget_loss": forget, "forget_loss_capped": forget, "retain_loss": retain}
    return {"step": 4 * epoch, "epoch": float(epoch), "lr": 0.5, **losses, "train_seconds": 2.0, "worker": "w"}


def state_of(out: Path, attempt: str, trial_id: str) -> Path:
    folder = out / "ray" / attempt / trial_id / "checkpoint_000000"
    folder.mkdir(parents=True)
    (folder / "state.pt").write_bytes(b"x")
    return folder


# A trial's life -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "state"), [("finished", "COMPLETE"), ("stopped", "PRUNED"), ("diverged", "FAIL"), ("failed", "FAIL")]
)
def test_a_trial_leaves_its_row_its_history_and_its_state_in_the_study(
    session: SweepSession, out: Path, tracker: RecordingTracker, status: str, state: str
) -> None:
    following = session.next_trial()
    assert following is not None
    proposal, spec = following
    session.put_back(following)
    run_trial(session, outcome={**OUTCOME, "status": status, "ended_at": 1.5})
    (row,) = session.tables.trials.read()
    expected = {"trial_id": "00000", "status": status, "forget_loss": "9.0", "error": "", "target_key": "key"}
    expected |= {"spec_hash": spec.spec_hash, "method": proposal.config["method"], "ended_at": "1.5"}
    expected["c"] = repr(proposal.config["c"]) if "c" in proposal.config else ""
    assert {name: row[name] for name in expected} == expected
    assert float(row["lr"]) == proposal.config["lr"]
    assert [(item["trial_id"], item["step"]) for item in session.tables.history.read()] == [
        ("00000", "1"),
        ("00000", "2"),
    ]
    assert states(out) == {state: 1}
    # MLflow's run has at the start what the row has at the end.
    ((trial_id, started),) = tracker.started
    assert trial_id == "00000"
    assert {"spec_hash", "method", "auto_lr", "lr"} <= set(started)
    assert all(row[name] == ("" if value is None else str(value)) for name, value in started.items())


def test_history_is_on_disk_before_the_row_and_the_row_before_search_and_mlflow(
    session: SweepSession, tracker: RecordingTracker, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a kill in between would leave a finished trial without its last report for ever."""
    seen: list[object] = []
    append, tell = session.tables.trials.append, session.study.tell

    def appending(rows: Any) -> None:
        seen.append(len(ResultTables(out).history.read()))
        append(rows)

    def telling(trial_id: str, row: Mapping[str, object], candidates: object) -> None:
        seen.append({row["trial_id"] for row in ResultTables(out).trials.read()})
        tell(trial_id, row)

    monkeypatch.setattr(session.tables.trials, "append", appending)
    monkeypatch.setattr(session.study, "tell", telling)
    run_trial(session, steps=2)
    assert seen == [2, {"00000"}]
    assert tracker.woken == [(1, set()), (2, set()), (2, {"00000"})]


def test_reports_that_a_restarted_worker_repeats_are_recorded_once(session: SweepSession) -> None:
    trial_id = running(session)
    for step in (1, 2, 3, 2, 3, 4, 5):
        update = {"step": step - 1, "eta": 1e-4, "eta_new": 2e-4, "fallback": None, "clipped": True}
        session.reported(trial_id, {"step": step, "forget_loss": float(step), "auto_lr": [update]})
    session.ended(trial_id, OUTCOME)
    assert [int(row["step"]) for row in session.tables.history.read()] == [1, 2, 3, 4, 5]
    updates = [(row["trial_id"], row["step"], row["eta_new"]) for row in session.tables.auto_lr.read()]
    assert updates == [("00000", str(step), "0.0002") for step in range(5)]


def test_saved_states_are_found_newest_first_and_deleted_when_their_trial_ends(
    session: SweepSession, out: Path
) -> None:
    for age, (attempt, trial_id) in enumerate((("attempt-2", "00000"), ("attempt-10", "00000"), ("attempt-2", "7"))):
        os.utime(state_of(out, attempt, trial_id), (1000 - age, 1000 - age))
    storage = out / "ray"
    found = [path.parent.parent.name for path in run_state_folders(storage, "00000")]
    assert found == ["attempt-2", "attempt-10"]
    run_trial(session)
    assert [str(path.relative_to(storage)) for path in storage.glob("*/*/*")] == ["attempt-2/7/checkpoint_000000"]
    remove_run_states(storage, "7")
    assert run_state_folders(storage, "7") == run_state_folders(out / "nowhere", "7") == []


# Epochs as candidates -----------------------------------------------------------------------------------------------


@pytest.fixture
def every_epoch(session: SweepSession, out: Path) -> SweepSession:
    return replace(session, tables=ResultTables(out, every_epoch=True), front=CheckpointManager(out, GOALS))


def keep_model(out: Path, trial_id: str, epoch: int) -> Path:
    """As the worker does before it reports."""
    folder = out / candidate_folder(trial_id, float(epoch))
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("weights")
    return folder


def test_an_epoch_on_the_front_keeps_its_model_until_another_dominates_it(every_epoch: SweepSession, out: Path) -> None:
    every_epoch.next_trial()
    folders = []
    for epoch, forget, retain in ((1, 1.0, 0.5), (2, 2.0, 0.9), (3, 3.0, 0.4)):
        folders.append(keep_model(out, "00000", epoch))
        every_epoch.reported("00000", report(epoch, forget, retain))
        assert [folder.is_dir() for folder in folders] == ([True] * epoch if epoch < 3 else [False, False, True])
    every_epoch.reported("00000", report(4, 9.0, 0.1) | {"evaluated": False})  # it repeats old losses
    (out / "checkpoints" / "00000").mkdir()
    every_epoch.reported("00000", report(5, 3.0, 0.3))
    every_epoch.ended("00000", OUTCOME | {"steps": 20})
    every_epoch.put_in_order()
    assert [(row["epoch"], row["checkpoint"]) for row in every_epoch.tables.candidates.read()] == [
        *(("1.0", ""), ("2.0", ""), ("3.0", "")),
        ("5.0", "checkpoints/00000"),
    ]
    assert len(every_epoch.tables.history.read()) == 5


def test_a_resumed_sweep_forgets_the_epochs_that_an_unfinished_trial_repeats(
    every_epoch: SweepSession, out: Path
) -> None:
    every_epoch.next_trial()
    kept, lost = keep_model(out, "00000", 1), keep_model(out, "00000", 2)
    every_epoch.reported("00000", report(1, 1.0, 0.5))
    every_epoch.reported("00000", report(2, 2.0, 0.9))
    half = out / "checkpoints" / ".00000-epoch-3.0123abcd"
    half.mkdir()
    tables = ResultTables(out, every_epoch=True)
    tables.mend({"00000": 4})
    resumed = replace(every_epoch, tables=tables, front=CheckpointManager(out, GOALS))
    assert [row["epoch"] for row in tables.candidates.read()] == ["1.0"]
    assert [kept.is_dir(), lost.is_dir(), half.is_dir()] == [True, False, False]
    assert read_front(out) == [(-1.0, 0.5)]
    told = []
    resumed.study.tell = lambda *row, candidates: told.append(candidates)  # type: ignore[method-assign]
    resumed.study.restore({})
    resumed.next_trial()
    resumed.reported("00000", report(2, 2.0, 0.9))
    resumed.ended("00000", OUTCOME)
    assert [[float(row["epoch"]) for row in rows] for rows in told] == [[1.0, 2.0]]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_stopped_trial_has_the_values_of_its_last_report(session: SweepSession, out: Path, resumed: bool) -> None:
    """Also one that was paused when the sweep was interrupted, and reports no more."""
    following = session.next_trial()
    assert following is not None
    session.reported("00000", report(1, 1.0, 0.5))
    session.reported("00000", report(2, 2.0, 0.9))
    if resumed:
        session = replace(session, tables=ResultTables(out))
        session.study.restore({})
        session.next_trial()
    session.stopped("00000")
    (row,) = session.tables.trials.read()
    expected = {"status": "stopped", "steps": "8", "epochs_done": "2.0", "forget_loss": "2.0", "retain_loss": "0.9"}
    expected |= {"checkpoint": "", "error": "", "lr": repr(following[1].lr)}
    expected |= {} if resumed else {"train_seconds": "2.0", "worker": "w"}
    assert {name: row[name] for name in expected} == expected
    assert states(out) == {"PRUNED": 1}


# Trouble ------------------------------------------------------------------------------------------------------------


def test_rows_wait_in_memory_while_the_disk_refuses_them_and_are_written_with_the_next_event(
    session: SweepSession, out: Path
) -> None:
    for _ in range(2):
        assert session.next_trial() is not None
    hidden = out.rename(out.with_name("hidden"))  # as a network drive may be gone
    session.reported("00000", {"step": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.study, "tell", lambda *_, **__: None)  # its log is in the same folder
        session.ended("00000", OUTCOME)
    assert session.tables.unwritten == 1
    assert not out.exists()
    hidden.rename(out)
    session.reported("00001", {"step": 1})
    assert session.tables.unwritten == 0
    assert [row["trial_id"] for row in session.tables.trials.read()] == ["00000"]
    assert [row["trial_id"] for row in session.tables.history.read()] == ["00000", "00001"]


def test_a_row_that_could_not_be_written_is_written_once(session: SweepSession) -> None:
    """History fails first, then the table of trials: neither half is written twice."""
    session.next_trial()
    session.tables.trials.path.mkdir()
    session.reported("00000", {"step": 1})
    session.ended("00000", OUTCOME)
    assert session.tables.unwritten == 1
    session.tables.trials.path.rmdir()
    run_trial(session, steps=1)
    assert [row["trial_id"] for row in session.tables.trials.read()] == ["00000", "00001"]
    assert [row["trial_id"] for row in session.tables.history.read()] == ["00000", "00001"]


def test_a_trial_that_the_infrastructure_ended_has_no_result(session: SweepSession, out: Path) -> None:
    session.next_trial()
    state = state_of(out, "attempt-1", "00000")
    before = time.time()
    session.died("00000", "The actor died because its node has died.")
    (row,) = session.tables.trials.read()
    assert (row["status"], row["forget_loss"], row["checkpoint"]) == ("failed", "", "")
    assert before <= float(row["ended_at"]) <= time.time()
    assert states(out) == {"RUNNING": 1}, "the study waits for a result"
    assert state.is_dir(), "the trial can continue from its state"
    assert session.next_trial() is not None, "other trials may have other nodes"


@pytest.mark.parametrize(
    "error", ["OSError: [Errno 28] No space left on device", "OSError: [Errno 5] Input/output error"]
)
def test_a_full_disk_ends_the_sweep_before_it_costs_every_trial(session: SweepSession, error: str) -> None:
    session.next_trial()
    session.ended("00000", {"status": "failed", "error": error})
    assert session.next_trial() is None
    assert session.is_over
    assert session.end is not None
    assert "disk" in session.end.because


def test_a_study_that_cannot_be_written_ends_the_sweep(
    session: SweepSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session.study, "ask", full)
    assert session.next_trial() is None
    assert session.broken
    assert "No space left on device" in caplog.text
