"""Between Ray Tune and the session: which trials are handed out, what a result means, where errors end."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.search import Searcher
from ray.tune.trainable.metadata import _TrainingRunMetadata
from sweeper.session import OUT_OF_TIME, SweepSession

from sweeper.execution.gpu_shares import GpuShares
from sweeper.execution.ray_bridge import SessionCallback, SessionSearcher
from tests.sweeper.conftest import OUTCOME, RecordingTracker
from trainables.spec import TrialSpec


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


def test_with_measured_shares_the_first_trial_runs_alone_and_later_ones_are_packed(session: SweepSession) -> None:
    made, session.shares = session.make_spec, GpuShares(gpus=1.0, gpu_gb=80.0, most=8)
    session.make_spec = lambda config: replace(made(config), method="ngdiff", options=())  # all of one class
    session.shares.take("another", 0.5)
    searcher, callback = SessionSearcher(session, restore_folders={}), SessionCallback(session)
    assert [searcher.suggest("tune-0"), searcher.suggest("tune-1")] == [None, None], "it needs a whole GPU"
    session.shares.ended("another", TrialSpec(), {})
    first = searcher.suggest("tune-0")
    assert (first["trial_id"], first["gpus"]) == ("00000", 1.0), "it stayed the next one"
    assert searcher.suggest("tune-1") is None
    assert session.study.asked == 1, "the study is not asked for a trial that cannot begin"
    measured = {"peak_gpu_gb": 30.0, "gpu_share": 1.0, "gpu_gb": 80.0}
    callback.on_trial_complete(1, [], tune_trial("00000", last_result={"outcome": OUTCOME | measured}))
    later = [searcher.suggest(f"tune-{number}") for number in (1, 2)]
    assert [(item["trial_id"], item["gpus"]) for item in later] == [("00001", 0.5), ("00002", 0.5)]
    assert searcher.suggest("tune-3") is None
    assert session.tables.trials.read()[0]["gpu_share"] == "1.0"


def test_after_the_deadline_no_trial_is_handed_out(session: SweepSession) -> None:
    searcher = SessionSearcher(session, restore_folders={})
    session.deadline = time.monotonic() - 1
    assert searcher.suggest("tune-0") == Searcher.FINISHED
    assert (session.study.asked, session.end) == (0, OUT_OF_TIME)
    session.deadline = None
    assert session.has_next(), "it stands ready, and still does not begin after the deadline"
    session.deadline = time.monotonic() - 1
    assert searcher.suggest("tune-0") == Searcher.FINISHED
    session.deadline = time.monotonic() + 60
    assert searcher.suggest("tune-0")["trial_id"] == "00001"
    assert session.end is None


def test_a_result_is_a_report_and_an_outcome_is_the_end(session: SweepSession) -> None:
    callback = SessionCallback(session)
    session.next_trial()
    trial = tune_trial("00000", last_result={"outcome": OUTCOME})
    callback.on_trial_start(0, [], trial)
    callback.on_trial_result(1, [], trial, {"report": {"step": 1, "forget_loss": 1.0}})
    callback.on_trial_result(2, [], trial, {"report": {"step": 2, "forget_loss": 2.0}, "outcome": OUTCOME})
    callback.on_trial_complete(2, [], trial)
    assert [row["step"] for row in session.tables.history.read()] == ["1", "2"]
    assert [row["status"] for row in session.tables.trials.read()] == ["finished"]


@pytest.mark.parametrize(
    ("event", "trial"),
    [
        *(("on_trial_complete", {"last_result": result}) for result in (None, {}, {"report": {"step": 1}})),
        *(("on_trial_error", {"error": error}) for error in (None, RuntimeError(" "), RuntimeError("a\n  b\nDied: c"))),
    ],
)
def test_a_trial_without_an_outcome_is_failed_with_a_reason_of_one_line(
    session: SweepSession, event: str, trial: dict[str, Any]
) -> None:
    session.next_trial()
    getattr(SessionCallback(session), event)(1, [], tune_trial("00000", **trial))
    (row,) = session.tables.trials.read()
    assert row["status"] == "failed"
    assert row["error"].strip()
    assert "\n" not in row["error"]


def test_the_reason_is_that_of_the_last_failure_in_rays_own_file(
    session: SweepSession, out: Path, tmp_path: Path
) -> None:
    """Ray syncs error.txt to its storage later; the callback comes first."""
    session.next_trial()
    trial = tune_trial("00000", error=None)
    trial.error_file = str(tmp_path / "error.txt")
    first, last = "ValueError: of the first try", "1 worker(s) were killed due to the node running low on memory. pid=1"
    (tmp_path / "error.txt").write_text(f"Failure # 1 (occurred at x)\n{first}\nFailure # 2 (occurred at y)\n{last}\n")
    SessionCallback(session).on_trial_error(1, [], trial)
    (row,) = session.tables.trials.read()
    assert "memory" in row["error"]
    assert "logs/00000.txt" in row["error"]
    assert (out / "logs" / "00000.txt").read_text() == f"{last}\n"


def test_no_error_in_our_bookkeeping_reaches_tune(
    session: SweepSession, tracker: RecordingTracker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in a callback would end the whole sweep."""
    tracker.fails = True
    session.shares = GpuShares()
    monkeypatch.setattr(session.shares, "ended", lambda *given: 1 / 0)
    callback = SessionCallback(session)
    session.next_trial()
    trial = tune_trial("00000", last_result={"outcome": OUTCOME})
    callback.on_trial_start(0, [], trial)
    callback.on_trial_result(1, [], trial, {"report": {"step": 1}})
    callback.on_trial_result(2, [], trial, {"report": {"no": "step"}})
    callback.on_trial_complete(3, [], trial)
    callback.on_trial_error(3, [], tune_trial("unknown"))
    callback.on_step_end(3, [])
    assert {row["trial_id"] for row in session.tables.trials.read()} == {"00000"}
    assert "tracking is broken" in caplog.text


def test_mlflow_hears_of_a_trials_end_when_the_search_cannot_be_told(
    session: SweepSession, tracker: RecordingTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study's log is on the same full disk; it is repaired when the sweep is resumed, MLflow is not."""

    def refuse(trial_id: str, row: Mapping[str, object], candidates: object) -> None:
        raise OSError(28, "No space left on device")

    callback = SessionCallback(session)
    session.next_trial()
    monkeypatch.setattr(session.study, "tell", refuse)
    callback.on_trial_complete(1, [], tune_trial("00000", last_result={"outcome": OUTCOME}))
    assert tracker.woken == [(0, {"00000"})]


def test_ray_can_pickle_what_holds_the_session(session: SweepSession) -> None:
    import ray.cloudpickle

    callback = SessionCallback(session)
    assert isinstance(ray.cloudpickle.loads(ray.cloudpickle.dumps(callback)), SessionCallback)
    assert type(pickle.loads(pickle.dumps(session))) is object


@pytest.mark.parametrize("event", ["on_trial_complete", "on_trial_error"])
def test_of_a_trial_that_is_over_tune_keeps_no_statistics(session: SweepSession, event: str) -> None:
    """Of Tune's own kind: 100 kB a trial, which a sweep of thousands would gather."""
    SessionSearcher(session, restore_folders={}).suggest("tune-0")
    metadata = _TrainingRunMetadata()
    metadata.update_metric("retain_loss", 0.5)
    trial = tune_trial("00000", last_result={"outcome": OUTCOME}, error=RuntimeError("the worker died"))
    trial.run_metadata = metadata
    getattr(SessionCallback(session), event)(1, [], trial)
    assert (metadata.metric_analysis, metadata.metric_n_steps) == ({}, {})
    metadata.update_metric("retain_loss", 0.25)  # it can continue
    assert session.tables.trials.read()[0]["trial_id"] == "00000"
