"""The bridge to Ray Tune, without Ray's processes: the trials that Tune gets, recorded reports, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from ray import cloudpickle
from ray.tune.trainable.metadata import _TrainingRunMetadata

from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.ray_bridge import ReportRecorder, TrialRecorder, TrialSearcher
from sweeper.driver.tune_scheduler import TuneScheduler
from sweeper.execution.gpu_shares import GpuShares
from sweeper.store.events import TrialEnded, TrialRequeued
from sweeper.store.saved_states import SavedState
from sweeper.store.state import Stage
from sweeper.store.tables import ResultTables
from tests.facts import assert_names
from tests.sweeper.conftest import OUTCOME, SETTINGS, bare_sweep, epoch_report, report, running
from trainables.run.reports import Execution


def tune_trial(trial_id: str, *, last_result: Mapping[str, Any] | None = None, error: object = None) -> SimpleNamespace:
    """Return an object with the attributes of Tune's trial that a callback uses."""
    return SimpleNamespace(config={"trial_id": trial_id}, last_result=last_result, get_error=lambda: error)


def searcher_of(sweep: OpenSweep) -> TrialSearcher:
    return TrialSearcher(sweep, TuneScheduler(sweep, max_concurrent=8))


def rows(sweep: OpenSweep) -> list[dict[str, str]]:
    return ResultTables(sweep.out).trials.read()


def test_an_unfinished_trial_continues_from_the_saved_state_of_its_last_report(sweep: OpenSweep, out: Path) -> None:
    trial_id = running(sweep)
    for step in (1, 2):
        report(sweep, trial_id, step)
    sweep.log.record(TrialRequeued(trial_id, 1))
    for step, place in ((1, "/states/0"), (2, None)):
        resumed = replace(bare_sweep(out), states={trial_id: SavedState("/states/0", step)})
        assert searcher_of(resumed).suggest("tune-0")["restore_from"] == place


def test_with_measured_shares_the_first_trial_runs_alone_and_later_ones_are_packed(out: Path) -> None:
    shares = GpuShares(gpus=1.0, gpu_gb=80.0, max_concurrent=8)
    sweep = bare_sweep(
        out,
        shares=shares,
        make_spec=lambda config: replace(SETTINGS.make_spec(config, target_key="key"), method="ngdiff", options=()),
    )
    shares.reserve("another", 0.5)
    searcher = searcher_of(sweep)
    assert [searcher.suggest("tune-0"), searcher.suggest("tune-1")] == [None, None], "a trial needs a whole GPU"
    del shares._reserved["another"]
    first = searcher.suggest("tune-0")
    assert (first["trial_id"], first["gpus"]) == ("00000", 1.0), "the trial is still the next one"
    assert searcher.suggest("tune-1") is None
    assert sweep.controller.study.proposed_trials == 1, "the study is not asked for a trial that cannot start"
    measured = replace(OUTCOME, execution=Execution(peak_gpu_gb=30.0, gpu_share=1.0, gpu_gb=80.0))
    TrialRecorder(sweep).on_trial_complete(1, [], tune_trial("00000", last_result={"outcome": measured}))
    later = [searcher.suggest(f"tune-{number}") for number in (1, 2)]
    assert [(item["trial_id"], item["gpus"]) for item in later] == [("00001", 0.5), ("00002", 0.5)]
    assert searcher.suggest("tune-3") is None


def test_a_report_is_recorded_once_and_an_outcome_ends_the_trial(sweep: OpenSweep) -> None:
    reports, callback = ReportRecorder(sweep), TrialRecorder(sweep)
    trial = tune_trial(str(searcher_of(sweep).suggest("")["trial_id"]), last_result={"outcome": OUTCOME})
    callback.on_trial_start(0, [], trial)
    assert sweep.log.state.trials["00000"].stage is Stage.RUNNING
    for step in (1, 2, 1, 2):  # a restarted worker repeats its reports
        result = {"config": trial.config, "report": epoch_report(step)}
        assert not reports("tune-0", result)
    callback.on_trial_complete(2, [], trial)
    assert [row["step"] for row in ResultTables(sweep.out).history.read()] == ["1", "2"]
    assert [row["status"] for row in rows(sweep)] == ["finished"]


@pytest.mark.parametrize(
    ("event", "trial"),
    [
        *(("on_trial_complete", {"last_result": result}) for result in (None, {"report": epoch_report(1)})),
        *(("on_trial_error", {"error": error}) for error in (None, RuntimeError(" "), RuntimeError("a\n  b\nDied: c"))),
    ],
)
def test_a_trial_without_an_outcome_is_failed_with_a_reason_of_one_line(
    sweep: OpenSweep, event: str, trial: dict[str, Any]
) -> None:
    metadata = _TrainingRunMetadata()  # Tune's statistics, 100 kB for each trial
    metadata.update_metric("retain_loss", 0.5)
    ended = tune_trial(running(sweep), **trial)
    ended.run_metadata = metadata
    getattr(TrialRecorder(sweep), event)(1, [], ended)
    assert (metadata.metric_analysis, metadata.metric_n_steps) == ({}, {})
    (row,) = rows(sweep)
    assert (row["status"], len(row["error"].strip().splitlines())) == ("failed", 1)


def test_the_error_is_the_last_failure_in_rays_error_file(sweep: OpenSweep, tmp_path: Path) -> None:
    """The callback runs before Ray copies error.txt to its storage."""
    trial = tune_trial(running(sweep))
    trial.error_file = str(tmp_path / "error.txt")
    first, last = "ValueError: of the first try", "1 worker(s) were killed due to the node running low on memory. pid=1"
    (tmp_path / "error.txt").write_text(f"Failure # 1 (occurred at x)\n{first}\nFailure # 2 (occurred at y)\n{last}\n")
    TrialRecorder(sweep).on_trial_error(1, [], trial)
    (row,) = rows(sweep)
    assert_names(row["error"], "memory", "logs/00000.txt")
    assert (sweep.out / "logs" / "00000.txt").read_text() == f"{last}\n"


def test_no_error_of_a_follower_reaches_tune_or_another_follower(
    out: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tune would end the whole sweep if a callback raised an exception."""
    sweep = bare_sweep(out, shares=GpuShares())
    monkeypatch.setattr(sweep.controller.study, "tell", Mock(side_effect=OSError(28, "No space left on device")))
    callback, reports = TrialRecorder(sweep), ReportRecorder(sweep)
    trial = tune_trial(running(sweep), last_result={"outcome": OUTCOME})
    reports("tune-0", {"config": {"trial_id": "unknown"}, "report": epoch_report(1)})
    callback.on_trial_complete(3, [], trial)
    callback.on_trial_error(3, [], tune_trial("unknown"))
    callback.on_step_end(3, [])
    assert {row["trial_id"] for row in rows(sweep)} == {"00000"}
    assert isinstance(sweep.tracker.apply.call_args.args[0], TrialEnded)
    assert "No space left" in caplog.text


def test_ray_can_pickle_objects_that_refer_to_the_sweep(sweep: OpenSweep) -> None:
    for item in (TrialRecorder(sweep), ReportRecorder(sweep), searcher_of(sweep)):
        assert isinstance(cloudpickle.loads(cloudpickle.dumps(item)), type(item))
