"""What is told to whom when a trial starts, reports and ends; and that no trouble of ours ends a sweep."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sweeper.ledger import Ledger
from sweeper.run_states import remove_run_states, run_state_folders
from sweeper.session import SweepSession
from tests.sweeper.conftest import OUTCOME, RecordingTracker, run_trial, states


def hide_folder(out: Path) -> Path:
    """The folder is gone, as a network drive may be; every write to it fails."""
    return out.rename(out.with_name("hidden"))


# A trial's life -----------------------------------------------------------------------------------------------------


def test_a_trial_leaves_its_row_its_history_and_its_state(session: SweepSession, out: Path) -> None:
    run_trial(session, steps=2)
    (row,) = session.ledger.trials.read()
    assert (row["trial_id"], row["status"], row["forget_loss"], row["error"]) == ("00000", "finished", "9.0", "")
    assert row["target_key"] == "key"
    assert [(report["trial_id"], report["step"]) for report in session.ledger.history.read()] == [
        ("00000", "1"),
        ("00000", "2"),
    ]
    assert states(out) == {"COMPLETE": 1}


def test_the_row_says_what_the_trial_was_asked_to_do(session: SweepSession) -> None:
    following = session.next_trial()
    assert following is not None
    proposal, spec = following
    session.ended(proposal.trial_id, OUTCOME)
    (row,) = session.ledger.trials.read()
    assert row["spec_hash"] == spec.spec_hash
    assert row["method"] == proposal.config["method"]
    assert float(row["lr"]) == proposal.config["lr"]
    assert row["c"] == (repr(proposal.config["c"]) if "c" in proposal.config else "")


def test_the_row_is_on_disk_before_the_search_and_mlflow_are_told(
    session: SweepSession, tracker: RecordingTracker, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    tell = session.study.tell

    def telling(trial_id: str, row: Mapping[str, object], candidates: object) -> None:
        told.append({row["trial_id"] for row in Ledger(out).trials.read()})
        tell(trial_id, row)

    monkeypatch.setattr(session.study, "tell", telling)
    run_trial(session, steps=2)
    assert told == [{"00000"}]
    assert tracker.woken == [(1, set()), (2, set()), (2, {"00000"})]


def test_auto_lrs_updates_are_logged_once_even_if_a_restarted_worker_reports_them_again(
    session: SweepSession, out: Path
) -> None:
    session.next_trial()
    for step in (3, 6, 3, 6):
        update = {"step": step - 1, "eta": 1e-4, "eta_new": 2e-4, "fallback": None, "clipped": True}
        session.reported("00000", {"step": step, "epoch": 1.0, "auto_lr": [update]})
    rows = Ledger(out).auto_lr.read()
    assert [(row["trial_id"], row["step"], row["eta_new"]) for row in rows] == [
        ("00000", "2", "0.0002"),
        ("00000", "5", "0.0002"),
    ]


def test_history_is_on_disk_before_the_row(session: SweepSession, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a kill between the two would leave a finished trial without its last report for ever."""
    append = session.ledger.trials.append
    seen = []

    def appending(rows: Any) -> None:
        seen.append(len(Ledger(out).history.read()))
        append(rows)

    monkeypatch.setattr(session.ledger.trials, "append", appending)
    run_trial(session, steps=3)
    assert seen == [3]


@pytest.mark.parametrize(
    ("status", "state"), [("finished", "COMPLETE"), ("stopped", "PRUNED"), ("diverged", "FAIL"), ("failed", "FAIL")]
)
def test_the_search_is_told_how_the_trial_ended(session: SweepSession, out: Path, status: str, state: str) -> None:
    run_trial(session, outcome={**OUTCOME, "status": status})
    assert states(out) == {state: 1}
    assert [row["status"] for row in session.ledger.trials.read()] == [status]


def test_mlflow_hears_of_a_start_what_the_row_will_say(session: SweepSession, tracker: RecordingTracker) -> None:
    run_trial(session)
    ((trial_id, spec),), (row,) = tracker.started, session.ledger.trials.read()
    assert trial_id == row["trial_id"]
    assert {"spec_hash", "method", "auto_lr", "lr"} <= set(spec)
    assert all(row[name] == ("" if value is None else str(value)) for name, value in spec.items())


def test_every_row_says_when_its_trial_ended(session: SweepSession) -> None:
    run_trial(session, outcome={**OUTCOME, "ended_at": 1.5})
    before = time.time()
    run_trial(session, steps=0, outcome={"status": "failed", "error": "RuntimeError: out of memory"})
    first, second = session.ledger.trials.read()
    assert first["ended_at"] == "1.5"
    assert before <= float(second["ended_at"]) <= time.time()
    assert (second["error"], second["forget_loss"], second["checkpoint"]) == ("RuntimeError: out of memory", "", "")


def test_steps_a_restarted_worker_reports_again_are_left_out(session: SweepSession) -> None:
    following = session.next_trial()
    assert following is not None
    trial_id = following[0].trial_id
    session.started(trial_id)
    for step in (1, 2, 3, 1, 2, 3, 4):  # killed after step 3, started anew
        session.reported(trial_id, {"step": step, "forget_loss": float(step)})
    session.started(trial_id)
    for step in (3, 4, 5):  # killed again, restored at step 2
        session.reported(trial_id, {"step": step, "forget_loss": float(step)})
    session.ended(trial_id, OUTCOME)
    assert [int(row["step"]) for row in session.ledger.history.read()] == [1, 2, 3, 4, 5]


def test_saved_states_of_a_trial_go_when_it_has_ended(session: SweepSession, out: Path) -> None:
    for attempt, trial_id in (("attempt-1", "00000"), ("attempt-2", "00000"), ("attempt-2", "00001")):
        folder = out / "ray" / attempt / trial_id / "checkpoint_000000"
        folder.mkdir(parents=True)
        (folder / "state.pt").write_bytes(b"x")
    run_trial(session)
    left = [str(path.relative_to(out / "ray")) for path in out.glob("ray/*/*/checkpoint_*")]
    assert left == ["attempt-2/00001/checkpoint_000000"]


def test_saved_states_are_found_newest_first_over_all_attempts(tmp_path: Path) -> None:
    import os

    for age, name in enumerate(("attempt-2/7/checkpoint_000001", "attempt-10/7/checkpoint_000000", "attempt-1/7/x")):
        (tmp_path / name).mkdir(parents=True)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    found = [path.parent.parent.name for path in run_state_folders(tmp_path, "7")]
    assert found == ["attempt-2", "attempt-10"]
    remove_run_states(tmp_path, "7")
    assert run_state_folders(tmp_path, "7") == []
    assert run_state_folders(tmp_path / "nowhere", "7") == []


# Trouble ------------------------------------------------------------------------------------------------------------


def test_rows_wait_in_memory_while_the_disk_refuses_them_and_are_written_with_the_next_event(
    session: SweepSession, out: Path
) -> None:
    first, second = session.next_trial(), session.next_trial()
    assert first is not None
    assert second is not None
    hidden = hide_folder(out)
    session.reported("00000", {"step": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.study, "tell", lambda *_, **__: None)  # its log is in the same folder
        session.ended("00000", OUTCOME)
    assert session.ledger.unwritten == 1
    assert not out.exists()

    hidden.rename(out)
    session.reported("00001", {"step": 1})

    assert session.ledger.unwritten == 0
    assert {row["trial_id"] for row in session.ledger.trials.read()} == {"00000"}
    assert [row["trial_id"] for row in session.ledger.history.read()] == ["00000", "00001"]


def test_a_row_that_could_not_be_written_is_written_once(session: SweepSession, out: Path) -> None:
    """History fails first, then the table of trials: neither half is written twice."""
    session.next_trial()
    session.ledger.trials.path.mkdir()
    session.reported("00000", {"step": 1})
    session.ended("00000", OUTCOME)
    assert session.ledger.unwritten == 1
    session.ledger.trials.path.rmdir()
    run_trial(session)
    assert [row["trial_id"] for row in session.ledger.trials.read()] == ["00000", "00001"]
    assert [(row["trial_id"], row["step"]) for row in session.ledger.history.read()] == [
        ("00000", "1"),
        ("00001", "1"),
        ("00001", "2"),
    ]


def test_what_the_infrastructure_ended_is_no_result(session: SweepSession, out: Path) -> None:
    following = session.next_trial()
    assert following is not None
    state = out / "ray" / "attempt-1" / "00000" / "checkpoint_000000"
    state.mkdir(parents=True)
    session.died("00000", "The actor died because its node has died.")
    assert [row["status"] for row in session.ledger.trials.read()] == ["failed"]
    assert states(out) == {"RUNNING": 1}, "the study waits for a result"
    assert state.is_dir(), "the trial can go on from its state"
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
