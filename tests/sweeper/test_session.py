"""What is told to whom when a trial starts, reports and ends; and that no trouble of ours ends a sweep."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from ray.tune.search import Searcher
from rich.console import Console

from search_spaces.builtin import default_space
from sweeper.candidates import FrontKeeper
from sweeper.display import Display
from sweeper.journal import open_journal
from sweeper.ledger import Ledger
from sweeper.search import STUDY_NAME, SweepStudy
from sweeper.session import SweepSession, remove_run_states, run_state_folders
from sweeper.settings import SweepSettings
from sweeper.trade_off import axes
from sweeper.tune_bridge import SessionCallback, SessionSearcher
from trainables.candidates import candidate_folder, read_front
from trainables.methods import options_by_method
from trainables.spec import TrialSpec

OUTCOME = {
    "status": "finished",
    "steps": 4,
    "epochs_done": 2.0,
    "forget_loss": 9.0,
    "forget_loss_capped": 7.6,
    "retain_loss": 0.25,
    "verbmem": 0.1,
    "wall_seconds": 1.5,
    "checkpoint": "checkpoints/00000",
    "error": None,
}
SETTINGS = SweepSettings(
    name="sweep",
    base=TrialSpec(),
    space=default_space(methods=options_by_method(("gdiff", "ngdiff"))),
    trials=3,
    sampler="random",
)


@dataclass
class RecordingTracker:
    """Stands for MLflow's: remembers which trials began and what the ledger held when it was woken."""

    out: Path
    started: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    woken: list[tuple[int, set[str]]] = field(default_factory=list)
    fails: bool = False

    def trial_started(self, trial_id: str, row: Mapping[str, Any]) -> None:
        if self.fails:
            raise RuntimeError("tracking is broken")
        self.started.append((trial_id, row))

    def wake(self) -> None:
        if self.fails:
            raise RuntimeError("tracking is broken")
        ledger = Ledger(self.out)
        self.woken.append((len(ledger.history.read()), {row["trial_id"] for row in ledger.trials.read()}))


def open_session(out: Path, tracker: RecordingTracker) -> SweepSession:
    study = SweepStudy(
        open_journal(out),
        space=SETTINGS.space,
        objectives=axes(SETTINGS.parsed_objectives, 8.0),
        sampler="random",
        trials=SETTINGS.trials,
        seeds=(0,),
        seed=0,
    )
    return SweepSession(
        ledger=Ledger(out),
        storage=out / "ray",
        study=study,
        tracker=tracker,  # type: ignore[arg-type]
        display=Display(Console(quiet=True), trials=SETTINGS.trials, done=0),
        make_spec=lambda config: SETTINGS.make_spec(config, target_key="key"),
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def tracker(out: Path) -> RecordingTracker:
    return RecordingTracker(out)


@pytest.fixture
def session(out: Path, tracker: RecordingTracker) -> SweepSession:
    return open_session(out, tracker)


def run_trial(session: SweepSession, *, steps: int = 2, outcome: Mapping[str, Any] = OUTCOME) -> str:
    following = session.next_trial()
    assert following is not None
    trial_id = following[0].trial_id
    session.started(trial_id)
    for step in range(1, steps + 1):
        session.reported(trial_id, {"step": step, "epoch": float(step), "forget_loss": step / 3, "seconds": 0.1})
    session.ended(trial_id, outcome)
    return trial_id


def states(out: Path) -> list[str]:
    storage = JournalStorage(JournalFileBackend(str(out / "optuna.log")))
    return [trial.state.name for trial in optuna.load_study(study_name=STUDY_NAME, storage=storage).trials]


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
    assert states(out) == ["COMPLETE"]


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
    assert states(out) == [state]
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


def test_mlflow_hears_of_a_trials_end_also_when_the_search_cannot_be_told(
    session: SweepSession, tracker: RecordingTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study's log is on the same full disk; it is put right when the sweep is resumed, MLflow is not."""

    def refuse(trial_id: str, row: Mapping[str, object], candidates: object) -> None:
        raise OSError(28, "No space left on device")

    callback = SessionCallback(session)
    session.next_trial()
    monkeypatch.setattr(session.study, "tell", refuse)
    callback.on_trial_complete(1, [], tune_trial("00000", last_result={"outcome": OUTCOME}))
    assert tracker.woken == [(0, {"00000"})]


# Every epoch a candidate, and trials that are stopped ----------------------------------------------------------------

GOALS = (("forget_loss_capped", "max"), ("retain_loss", "min"))


def report(epoch: int, forget: float, retain: float) -> dict[str, Any]:
    losses = {"forget_loss": forget, "forget_loss_capped": forget, "retain_loss": retain}
    return {"step": 4 * epoch, "epoch": float(epoch), "lr": 0.5, **losses, "train_seconds": 2.0, "worker": "w"}


@pytest.fixture
def every_epoch(session: SweepSession, out: Path) -> SweepSession:
    return replace(session, ledger=Ledger(out, every_epoch=True), front=FrontKeeper(out, GOALS))


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
    (out / "checkpoints" / "00000").mkdir()
    every_epoch.reported("00000", report(4, 3.0, 0.3))
    every_epoch.ended("00000", OUTCOME | {"steps": 16})
    every_epoch.put_in_order()
    assert [(row["epoch"], row["step"], row["checkpoint"]) for row in every_epoch.ledger.candidates.read()] == [
        *(("1.0", "4", ""), ("2.0", "8", ""), ("3.0", "12", "")),
        ("4.0", "16", "checkpoints/00000"),
    ]


def test_a_report_that_repeats_old_losses_is_no_candidate(every_epoch: SweepSession) -> None:
    every_epoch.next_trial()
    every_epoch.reported("00000", report(1, 1.0, 0.5))
    every_epoch.reported("00000", report(2, 1.0, 0.5) | {"evaluated": False})
    assert [row["epoch"] for row in every_epoch.ledger.candidates.read()] == ["1.0"]
    assert len(every_epoch.ledger.history.read()) == 2


def test_a_resumed_sweep_forgets_the_epochs_an_unfinished_trial_will_make_again(
    every_epoch: SweepSession, out: Path
) -> None:
    every_epoch.next_trial()
    kept, lost = keep_model(out, "00000", 1), keep_model(out, "00000", 2)
    every_epoch.reported("00000", report(1, 1.0, 0.5))
    every_epoch.reported("00000", report(2, 2.0, 0.9))
    half = out / "checkpoints" / ".00000-epoch-3.0123abcd"
    half.mkdir()
    ledger = Ledger(out, every_epoch=True)
    ledger.mend({"00000": 4})
    resumed = replace(every_epoch, ledger=ledger, front=FrontKeeper(out, GOALS))
    assert [row["epoch"] for row in ledger.candidates.read()] == ["1.0"]
    assert [kept.is_dir(), lost.is_dir(), half.is_dir()] == [True, False, False]
    assert read_front(out) == [(-1.0, 0.5)]
    told = []
    resumed.study.tell = lambda *row, candidates: told.append(candidates)  # type: ignore[method-assign]
    resumed.study.take_up({})
    resumed.next_trial()
    resumed.reported("00000", report(2, 2.0, 0.9))
    resumed.ended("00000", OUTCOME)
    assert [[float(row["epoch"]) for row in rows] for rows in told] == [[1.0, 2.0]]


def test_a_stopped_trial_has_the_values_of_its_last_report(session: SweepSession, out: Path) -> None:
    following = session.next_trial()
    assert following is not None
    session.reported("00000", report(1, 1.0, 0.5))
    session.reported("00000", report(2, 2.0, 0.9))
    session.stopped("00000")
    (row,) = session.ledger.trials.read()
    expected = {"status": "stopped", "steps": "8", "epochs_done": "2.0", "forget_loss": "2.0", "retain_loss": "0.9"}
    expected |= {"train_seconds": "2.0", "worker": "w", "checkpoint": "", "error": ""}
    assert {name: row[name] for name in expected} == expected
    assert float(row["lr"]) == following[1].lr
    assert states(out) == ["PRUNED"]


def test_a_trial_that_is_stopped_before_it_reports_again_has_its_row_from_the_history(
    session: SweepSession, out: Path
) -> None:
    """As one that was paused when the sweep was interrupted."""
    session.next_trial()
    session.reported("00000", report(1, 1.0, 0.5))
    resumed = replace(session, ledger=Ledger(out))
    resumed.study.take_up({})
    resumed.next_trial()
    resumed.stopped("00000")
    (row,) = resumed.ledger.trials.read()
    assert (row["status"], row["steps"], row["epochs_done"], row["forget_loss"]) == ("stopped", "4", "1.0", "1.0")


# The bridge to Ray Tune ---------------------------------------------------------------------------------------------


def tune_trial(trial_id: str, *, last_result: Mapping[str, Any] | None = None, error: object = None) -> SimpleNamespace:
    """As much of Tune's trial as a callback uses."""
    return SimpleNamespace(config={"trial_id": trial_id}, last_result=last_result, get_error=lambda: error)


def test_the_searcher_hands_out_every_trial_once_and_then_ends_the_search(session: SweepSession) -> None:
    searcher = SessionSearcher(session, restore_folders={"00001": "/states/1"})
    configs = [searcher.suggest(f"tune-{number}") for number in range(3)]
    assert [config["trial_id"] for config in configs] == ["00000", "00001", "00002"]
    assert [config["restore_from"] for config in configs] == [None, "/states/1", None]
    assert all(TrialSpec.from_dict(config["spec"]).target_key == "key" for config in configs)
    assert searcher.suggest("tune-3") == Searcher.FINISHED


def test_after_the_deadline_no_trial_is_handed_out(session: SweepSession) -> None:
    late = SessionSearcher(session, restore_folders={}, deadline=time.monotonic() - 1)
    assert late.suggest("tune-0") == Searcher.FINISHED
    assert session.study.asked == 0
    early = SessionSearcher(session, restore_folders={}, deadline=time.monotonic() + 60)
    assert early.suggest("tune-0")["trial_id"] == "00000"


def test_a_result_is_a_report_and_an_outcome_is_the_end(session: SweepSession) -> None:
    callback = SessionCallback(session)
    session.next_trial()
    trial = tune_trial("00000", last_result={"outcome": OUTCOME})
    callback.on_trial_start(0, [], trial)
    callback.on_trial_result(1, [], trial, {"report": {"step": 1, "forget_loss": 1.0}})
    callback.on_trial_result(2, [], trial, {"report": {"step": 2, "forget_loss": 2.0}, "outcome": OUTCOME})
    callback.on_trial_complete(2, [], trial)
    assert [row["step"] for row in session.ledger.history.read()] == ["1", "2"]
    assert [row["status"] for row in session.ledger.trials.read()] == ["finished"]


@pytest.mark.parametrize("last_result", [None, {}, {"report": {"step": 1}}])
def test_a_trial_that_ends_without_an_outcome_is_failed_and_says_so(
    session: SweepSession, last_result: Mapping[str, Any] | None
) -> None:
    session.next_trial()
    SessionCallback(session).on_trial_complete(1, [], tune_trial("00000", last_result=last_result))
    (row,) = session.ledger.trials.read()
    assert row["status"] == "failed"
    assert row["error"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Traceback:\n  deep\nActorDiedError: the worker was killed"),
        None,
        RuntimeError(),
        RuntimeError(" "),
    ],
    ids=["a traceback", "no error", "an error without text", "an error of blanks"],
)
def test_a_trial_whose_worker_died_too_often_is_failed_with_a_reason_of_one_line(
    session: SweepSession, error: Exception | None
) -> None:
    session.next_trial()
    SessionCallback(session).on_trial_error(1, [], tune_trial("00000", error=error))
    (row,) = session.ledger.trials.read()
    assert row["status"] == "failed"
    assert row["error"].strip()
    assert "\n" not in row["error"]


def test_the_reason_is_read_where_ray_writes_it_at_once_and_is_that_of_the_last_failure(
    session: SweepSession, out: Path, tmp_path: Path
) -> None:
    """Ray syncs error.txt to its storage later; the callback comes first."""
    session.next_trial()
    trial = tune_trial("00000", error=None)
    trial.error_file = str(tmp_path / "error.txt")
    first, last = "ValueError: of the first try", "1 worker(s) were killed due to the node running low on memory. pid=1"
    (tmp_path / "error.txt").write_text(f"Failure # 1 (occurred at x)\n{first}\nFailure # 2 (occurred at y)\n{last}\n")
    SessionCallback(session).on_trial_error(1, [], trial)
    (row,) = session.ledger.trials.read()
    assert row["error"] == "memory ran out on the node (see logs/00000.txt)"
    assert (out / "logs" / "00000.txt").read_text() == f"{last}\n"


def test_what_the_infrastructure_ended_is_no_result(session: SweepSession, out: Path) -> None:
    following = session.next_trial()
    assert following is not None
    state = out / "ray" / "attempt-1" / "00000" / "checkpoint_000000"
    state.mkdir(parents=True)
    session.died("00000", "The actor died because its node has died.")
    assert [row["status"] for row in session.ledger.trials.read()] == ["failed"]
    assert states(out) == ["RUNNING"], "the study waits for a result"
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


def test_no_error_in_our_bookkeeping_reaches_tune(
    session: SweepSession, tracker: RecordingTracker, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in a callback would end the whole sweep."""
    tracker.fails = True
    callback = SessionCallback(session)
    session.next_trial()
    trial = tune_trial("00000", last_result={"outcome": OUTCOME})
    callback.on_trial_start(0, [], trial)
    callback.on_trial_result(1, [], trial, {"report": {"step": 1}})
    callback.on_trial_result(2, [], trial, {"report": {"no": "step"}})
    callback.on_trial_complete(3, [], trial)
    callback.on_trial_error(3, [], tune_trial("unknown"))
    callback.on_step_end(3, [])
    assert {row["trial_id"] for row in session.ledger.trials.read()} == {"00000"}
    assert "tracking is broken" in caplog.text


def test_ray_can_pickle_what_holds_the_session(session: SweepSession) -> None:
    import ray.cloudpickle

    callback = SessionCallback(session)
    assert isinstance(ray.cloudpickle.loads(ray.cloudpickle.dumps(callback)), SessionCallback)
    assert type(pickle.loads(pickle.dumps(session))) is object
