"""The controller: the records of a trial, which trial runs next, and when the sweep is over.

Reuse is tested in search/test_warm_start.py, trials that wait at a rung after a kill in driver/test_tune_scheduler.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from sweeper.controller import FULL_DISK, NO_ANSWER, OUT_OF_TIME
from sweeper.driver.open_sweep import OpenSweep, open_sweep
from sweeper.search.stopping import Stopping
from sweeper.settings.until import Plateau
from sweeper.store.events import Kind
from sweeper.store.folder import begin
from sweeper.store.state import Phase
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import OUTCOME, SETTINGS, TARGET, bare_sweep, report, run_trial, running, states

NODE_LOST = {"status": "failed", "error": "The actor died because its node has died."}
LOSSES = {"forget_loss": 2.5, "forget_loss_capped": 2.5, "retain_loss": 0.5, "train_seconds": 2.0, "worker": "w"}


def rows(out: Path) -> dict[str, dict[str, str]]:
    return {row["trial_id"]: row for row in ResultTables(out).trials.read()}


# The records of a trial -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "state"), [("finished", "COMPLETE"), ("stopped", "PRUNED"), ("diverged", "FAIL"), ("failed", "FAIL")]
)
def test_the_status_of_a_trial_is_in_its_row_and_in_the_study(
    sweep: OpenSweep, out: Path, status: str, state: str
) -> None:
    trial_id = run_trial(sweep, outcome={**OUTCOME, "status": status, "ended_at": 1.5})
    row = rows(out)[trial_id]
    assert (row["status"], row["forget_loss"], row["error"], row["ended_at"]) == (status, "9.0", "", "1.5")
    assert [(item["trial_id"], item["step"]) for item in ResultTables(out).history.read()] == [
        (trial_id, "1"),
        (trial_id, "2"),
    ]
    assert states(out) == {state: 1}


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_stopped_trial_has_the_values_of_its_last_report(sweep: OpenSweep, out: Path, is_resumed: bool) -> None:
    """Also if the trial was paused when the sweep was interrupted, and sends no further report."""
    trial_id = running(sweep)
    report(sweep, trial_id, 1)
    report(sweep, trial_id, 2, **LOSSES)
    if is_resumed:
        sweep.log.record(Kind.TRIAL_REQUEUED, trial_id, {"step": 2})
        sweep = bare_sweep(out)
        assert running(sweep) == trial_id
    sweep.controller.end_stopped(trial_id)
    expected = {"status": "stopped", "steps": "2", "epochs_done": "2.0", "checkpoint": "", "error": ""}
    expected |= {name: str(value) for name, value in LOSSES.items()}
    row = rows(out)[trial_id]
    assert {name: row[name] for name in expected} == expected
    assert states(out) == {"PRUNED": 1}


def test_the_study_gets_the_epochs_before_and_after_a_resume_once(
    sweep: OpenSweep, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial_id = running(sweep)
    for step in (1, 2):
        report(sweep, trial_id, step, **LOSSES)
    sweep.log.record(Kind.TRIAL_REQUEUED, trial_id, {"step": 1})
    resumed = bare_sweep(out)
    assert running(resumed) == trial_id
    monkeypatch.setattr(resumed.controller.study, "tell", tell := Mock())
    for step in (2, 3):
        report(resumed, trial_id, step, **LOSSES)
    report(resumed, trial_id, 4, **LOSSES, evaluated=False)
    resumed.controller.end_trial(trial_id, OUTCOME)
    assert [item["epoch"] for item in tell.call_args.kwargs["candidates"]] == [1.0, 2.0, 3.0]


# Failures of the infrastructure -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "end"),
    [
        ("OSError: [Errno 28] No space left on device", FULL_DISK),
        ("OSError: [Errno 5] Input/output error", FULL_DISK),
        ("StorageError: AWS Error NETWORK_CONNECTION", NO_ANSWER),
    ],
)
def test_a_failure_that_every_trial_would_meet_ends_the_sweep_until_it_is_resumed(
    sweep: OpenSweep, out: Path, error: str, end: object
) -> None:
    trial_id = run_trial(sweep, outcome={"status": "failed", "error": error})
    assert (sweep.controller.next_trial(), sweep.controller.is_over, sweep.controller.end) == (None, True, end)
    sweep.log.record(Kind.TRIAL_REQUEUED, trial_id, {"step": 1})
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
    for outcome in (NODE_LOST, {"status": "failed", "error": "ValueError: no"}, OUTCOME):
        run_trial(first, outcome=outcome)
    assert states(out) == {"RUNNING": 1, "FAIL": 1, "COMPLETE": 1}, "the study waits for the result of the first trial"
    report(first, running(first), 1)
    given: dict[str, Any] = {"sweep_id": "id", "console": Console(quiet=True), "retry_failed": retry_failed}
    sweep = open_sweep(out, settings, {0: TARGET}, **given)
    sweep.tracker.close(timeout=0.0)
    assert [trial.id for trial in sweep.log.state.in_phase(Phase.PROPOSED)] == again
    assert sweep.remaining_trials == len(again)
    assert sweep.log.state.trials["00003"].last_step == -1, "there is no saved state"
    assert [running(sweep) for _ in again] == again
    assert sweep.controller.next_trial() is None


def test_the_study_has_the_last_result_of_a_trial_that_was_retried(sweep: OpenSweep, out: Path) -> None:
    trial_id = run_trial(sweep, outcome={"status": "failed", "error": "ValueError: no"})
    sweep.log.record(Kind.TRIAL_REQUEUED, trial_id, {"step": -1})
    retried = bare_sweep(out)
    assert run_trial(retried) == trial_id
    assert states(out) == {"COMPLETE": 1}
    assert run_trial(retried, outcome={**OUTCOME, "retain_loss": 0.1}) == "00001"
    reopened = bare_sweep(out)
    assert states(out) == {"COMPLETE": 2}
    assert reopened.controller.study.archive.trace == retried.controller.study.archive.trace, "the order of the ends"


# Budgets ------------------------------------------------------------------------------------------------------------


def test_a_plateau_ends_the_sweep(out: Path) -> None:
    sweep = bare_sweep(out, stopping=Stopping(plateau=Plateau(trials=1)))
    assert (run_trial(sweep), sweep.controller.end, run_trial(sweep)) == ("00000", None, "00001")
    assert sweep.controller.end is not None
    assert sweep.controller.end.further == "--until none"


def test_after_the_epoch_budget_only_unfinished_trials_run(out: Path) -> None:
    sweep = bare_sweep(out, stopping=Stopping(epoch_budget=3))
    run_trial(sweep)
    trial_id = running(sweep)
    report(sweep, trial_id, 1)
    assert sweep.controller.next_trial() is None
    assert sweep.controller.end is not None
    assert sweep.controller.end.further == "--epoch-budget EPOCHS"
    sweep.log.record(Kind.TRIAL_REQUEUED, trial_id, {"step": 1})
    resumed = bare_sweep(out, stopping=Stopping(epoch_budget=3))
    assert running(resumed) == trial_id
    assert resumed.controller.next_trial() is None


def test_after_the_deadline_no_trial_starts(sweep: OpenSweep) -> None:
    assert sweep.controller.has_next()
    sweep.controller.stopping.deadline = 0.0
    assert not sweep.controller.has_next(), "nor does a trial that is ready"
    assert sweep.controller.end == OUT_OF_TIME
    sweep.controller.stopping.deadline = None
    assert running(sweep) == "00000"
