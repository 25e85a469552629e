"""The end of a sweep: the summary, and the errors of a full disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeper.driver.finalize import _summary, finalize
from sweeper.driver.merging import propose_merge
from sweeper.driver.open_sweep import OpenSweep
from sweeper.search.audit import pool_models
from sweeper.search.limits import End
from sweeper.search.unmeasured import UnmeasuredEpoch
from sweeper.store.events import Merge, Phase, TrialProposed
from sweeper.store.folder import SweepError
from tests.facts import assert_names
from tests.sweeper.conftest import SETTINGS, bare_sweep, end_trial, run_trial, running

LOST = End("the loss of Ray's head at 127.0.0.1:6379")


@pytest.fixture
def sweep(out: Path, monkeypatch: pytest.MonkeyPatch) -> OpenSweep:
    """A sweep of two trials without a report."""
    monkeypatch.setattr("analysis.report.report.write_report", lambda out: {})
    monkeypatch.setattr("sweeper.driver.finalize.unmeasured_models", lambda *_: [])
    return bare_sweep(out, replace(SETTINGS, trials=2), tracker=Mock(close=Mock(return_value="no MLflow")))


@pytest.mark.parametrize(("failure", "trials", "unmeasured"), [(LOST, 2, 2), (None, 2, 2), (LOST, 1, 0)])
def test_the_summary_has_the_reason_of_an_early_end_and_what_is_left(
    sweep: OpenSweep, monkeypatch: pytest.MonkeyPatch, failure: End | None, trials: int, unmeasured: int
) -> None:
    epochs = [UnmeasuredEpoch("00000", step, f"checkpoints/00000-epoch-{step}") for step in range(unmeasured)]
    monkeypatch.setattr("sweeper.driver.finalize.unmeasured_models", lambda *_: epochs)
    for _ in range(trials):
        run_trial(sweep)
    sweep.controller.failure = failure
    found = finalize(sweep)
    assert (found.trials, found.run_again, found.unmeasured) == (trials, 2 - trials, unmeasured)
    assert found.ended_because == (failure and failure.because)
    (end,) = sweep.tracker.sweep_ended.call_args.args
    assert end.status == ("interrupted" if failure else "finished")


def test_a_merge_without_a_result_makes_the_sweep_incomplete(sweep: OpenSweep) -> None:
    """Such as after the loss of its worker."""
    for _ in range(2):
        run_trial(sweep)
    assert not finalize(sweep).is_incomplete
    propose_merge(sweep, Merge("mean", ("00000", "00001")))
    assert (finalize(sweep).run_again, finalize(sweep).is_incomplete) == (1, True)


def test_models_of_a_larger_audit_that_was_interrupted_are_not_missing_from_a_smaller_one(out: Path) -> None:
    """The event log is that of an interrupted audit of 2 models in each pool."""
    sweep = bare_sweep(out, replace(SETTINGS, trials=0, audit=2), tracker=Mock(close=Mock(return_value="no MLflow")))
    for model in pool_models(sweep.settings):
        sweep.log.record(TrialProposed(model.trial_id, {}, phase=Phase.AUDIT))
    assert _summary(sweep, {}, None, tracking="").run_again == 4
    smaller = replace(sweep, settings=replace(sweep.settings, audit=1))
    assert _summary(smaller, {}, None, tracking="").run_again == 2


def test_the_error_of_a_full_disk_has_the_resume_command_and_counts_the_lost_trials(
    sweep: OpenSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = Mock(side_effect=OSError(28, "No space left on device"))
    run_trial(sweep)
    with monkeypatch.context() as patch:
        patch.setattr("analysis.report.report.write_report", refuse)
        with pytest.raises(SweepError) as caught:
            finalize(sweep)
    assert_names(caught.value, sweep.out, "No space left on device", f"python -m sweeper resume {sweep.out}")
    trial_id = running(sweep)
    monkeypatch.setattr("sweeper.store.event_log.append", refuse)
    end_trial(sweep, trial_id)
    with pytest.raises(SweepError) as caught:
        finalize(sweep)
    assert_names(caught.value, sweep.out, "1 ended trial")


def test_mlflow_receives_the_verdict_of_a_learning_rate_study(
    sweep: OpenSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.study.lr_study.read_study", Mock())
    monkeypatch.setattr("analysis.report.study_text.write_study", lambda path, study: path.write_text("{}"))
    for kind, expected in (("pareto", False), ("lr-study", True)):
        study = replace(sweep, settings=replace(sweep.settings, kind=kind))
        if kind == "pareto":
            run_trial(study)
            run_trial(study)
        finalize(study)
        (end,) = study.tracker.sweep_ended.call_args.args
        assert (study.out / "lr_study.json" in end.artifacts) == expected
