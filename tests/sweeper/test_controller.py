"""The controller: which trial runs next, and when the sweep is over.

Reuse is tested in search/test_warm_start.py, trials that wait at a rung after a kill in driver/test_tune_scheduler.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from search_spaces.parameters import Choice
from search_spaces.space import Space
from sweeper.controller import FULL_DISK, OUT_OF_TIME, STORAGE_FAILURE
from sweeper.driver.open_sweep import OpenSweep, open_sweep
from sweeper.search.limits import Limits
from sweeper.store.events import TrialRequeued
from sweeper.store.folder import begin
from sweeper.store.state import Stage
from tests.sweeper.conftest import (
    OUTCOME,
    SETTINGS,
    TARGET,
    bare_sweep,
    end_trial,
    outcome,
    report,
    run_trial,
    running,
    states,
)

NODE_LOST = outcome("failed", error="The actor died because its node has died.")
BROKEN = outcome("failed", error="ValueError: no")


@pytest.mark.parametrize(
    ("error", "end"),
    [
        ("OSError: [Errno 28] No space left on device", FULL_DISK),
        ("OSError: [Errno 5] Input/output error", FULL_DISK),
        ("StorageError: AWS Error NETWORK_CONNECTION", STORAGE_FAILURE),
    ],
)
def test_a_failure_that_every_trial_would_meet_ends_the_sweep_until_it_is_resumed(
    sweep: OpenSweep, out: Path, error: str, end: object
) -> None:
    trial_id = run_trial(sweep, outcome=outcome("failed", error=error))
    assert (sweep.controller.next_trial(), sweep.controller.is_over, sweep.controller.end) == (None, True, end)
    sweep.log.record(TrialRequeued(trial_id, 1))
    resumed = bare_sweep(out)
    assert not resumed.controller.is_over
    assert running(resumed) == trial_id


def test_a_study_that_cannot_be_written_ends_the_sweep(sweep: OpenSweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.controller.study, "ask", Mock(side_effect=OSError(28, "No space left on device")))
    assert (sweep.controller.next_trial(), sweep.controller.end) == (None, FULL_DISK)


@pytest.mark.parametrize(("retry_failed", "again"), [(False, ["00000", "00003"]), (True, ["00000", "00001", "00003"])])
def test_resume_runs_trials_without_a_result_again_and_failed_ones_on_request(
    tmp_path: Path, retry_failed: bool, again: list[str]
) -> None:
    out = tmp_path / "sweep"
    settings = replace(SETTINGS, trials=4, tracking_uri="http://127.0.0.1:9")
    begin(settings, out)
    first = bare_sweep(out, settings)
    for end in (NODE_LOST, BROKEN, OUTCOME):
        run_trial(first, outcome=end)
    assert states(out) == {"RUNNING": 1, "FAIL": 1, "COMPLETE": 1}, "the study waits for the result of the first trial"
    report(first, running(first), 1)
    given: dict[str, Any] = {"sweep_id": "id", "console": Console(quiet=True), "retry_failed": retry_failed}
    sweep = open_sweep(out, settings, {0: TARGET}, **given)
    sweep.tracker.close(timeout=0.0)
    assert [trial.id for trial in sweep.log.state.at_stage(Stage.PROPOSED)] == again
    assert sweep.remaining_trials == len(again)
    assert sweep.log.state.trials["00003"].last_step == -1, "there is no saved state"
    assert [running(sweep) for _ in again] == again
    assert sweep.controller.next_trial() is None


def test_the_study_has_the_last_result_of_a_trial_that_was_retried(sweep: OpenSweep, out: Path) -> None:
    trial_id = run_trial(sweep, outcome=BROKEN)
    sweep.log.record(TrialRequeued(trial_id, -1))
    retried = bare_sweep(out)
    assert run_trial(retried) == trial_id
    assert states(out) == {"COMPLETE": 1}
    assert run_trial(retried, outcome=outcome(forget_loss_capped=7.6, retain_loss=0.1)) == "00001"
    reopened = bare_sweep(out)
    assert states(out) == {"COMPLETE": 2}
    assert reopened.controller.study.archive.trace == retried.controller.study.archive.trace, "the order of the ends"


def test_a_sweep_that_resumes_with_fewer_trials_continues_only_some_of_its_unfinished_trials(out: Path) -> None:
    sweep = bare_sweep(out, replace(SETTINGS, trials=4))
    run_trial(sweep)
    first, *_ = [running(sweep) for _ in range(3)]
    resumed = bare_sweep(out, replace(SETTINGS, trials=2))
    assert running(resumed) == first
    assert resumed.controller.next_trial() is None


def test_after_the_epoch_budget_only_unfinished_trials_run_and_after_the_deadline_none(out: Path) -> None:
    sweep = bare_sweep(out, limits=Limits(epoch_budget=3))
    run_trial(sweep)
    trial_id = running(sweep)
    report(sweep, trial_id, 1)
    assert sweep.controller.next_trial() is None
    assert sweep.controller.end is not None
    assert sweep.controller.end.further == "--epoch-budget EPOCHS"
    sweep.log.record(TrialRequeued(trial_id, 1))
    resumed = bare_sweep(out, limits=Limits(epoch_budget=3, deadline=0.0))
    assert (resumed.controller.next_trial(), resumed.controller.end) == (None, OUT_OF_TIME)
    resumed.controller.limits.deadline = None
    assert running(resumed) == trial_id
    assert resumed.controller.next_trial() is None


def test_a_sweep_ends_when_its_space_has_no_further_configuration(out: Path) -> None:
    space = Space((Choice("lr", (1e-4, 1e-3)),), {"method": "gdiff", "c": 0.5})
    sweep = bare_sweep(out, replace(SETTINGS, trials=16, space=space))
    first = running(sweep)
    run_trial(sweep)
    assert sweep.controller.next_trial() is None
    assert not sweep.controller.is_over, "a paused trial may still continue"
    end_trial(sweep, first)
    trials = sweep.log.state.trials.values()
    assert sorted(trial.settings["lr"] for trial in trials) == [1e-4, 1e-3]
    assert sweep.controller.end is not None
    assert "2 configurations" in sweep.controller.end.because
    assert sweep.controller.end.further is None
    assert not bare_sweep(out, sweep.settings).controller.queue_next(), "after a resume, too"
