"""Confirm trials: the same configuration with fresh seeds, beside the search, which does not count them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from analysis.frontier.confirmation import Confirmed
from analysis.tables.trial_table import TrialTable
from sweeper.driver.confirmation import confirm_answer, has_fresh_runs, left_out
from sweeper.driver.open_sweep import OpenSweep
from sweeper.search.confirmation import FreshRun, missing_runs, wanted_runs
from sweeper.search.limits import SEARCH_CLOSED, Limits
from sweeper.search.reuse import ReusableTrials
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.event_log import read_state
from sweeper.store.events import Phase, TrialRequeued
from sweeper.store.state import SweepState
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import OUTCOME, SETTINGS, bare_sweep, outcome, report, run_trial, running, states

CONFIRM = replace(SETTINGS, confirm=3)
ANSWER = Confirmed("00001", 2.0)
RUNNER_UP = Confirmed("00002", 4.0)
RUNS = [FreshRun("00001", 2.0, seed) for seed in (1, 2, 3)]


@pytest.fixture
def searched(out: Path) -> OpenSweep:
    """A sweep whose three trials have ended after two epochs each."""
    sweep = bare_sweep(out, CONFIRM)
    for _ in range(3):
        run_trial(sweep)
    return sweep


def confirm(sweep: OpenSweep, runs: list[FreshRun]) -> list[str]:
    sweep.controller.confirm(runs)
    return [trial.id for trial in sweep.log.state.trials_of(Phase.CONFIRM)]


# What runs ------------------------------------------------------------------------------------------------------------


def test_a_fresh_run_has_the_configuration_of_its_trial_another_seed_and_stops_at_the_epoch(
    searched: OpenSweep,
) -> None:
    assert confirm(searched, RUNS) == ["confirm-000", "confirm-001", "confirm-002"]
    trial = searched.controller.next_trial()
    assert trial is not None
    original = searched.log.state.trials["00001"].settings
    changed = {name for name, value in trial.spec.row().items() if value != original[name]}
    assert changed == {"seed", "stop_epoch"}, "the schedule, which depends on the number of epochs, is the same"
    assert (trial.spec.seed, trial.spec.stop_epoch, trial.spec.epochs) == (1, 2.0, original["epochs"])
    assert trial.spec.spec_hash != replace(trial.spec, stop_epoch=None).spec_hash, "a shorter run is another trial"


def test_a_requeued_confirm_trial_is_the_next_one(searched: OpenSweep) -> None:
    confirm(searched, RUNS)
    first = searched.controller.next_trial()
    assert first is not None
    searched.controller.requeue(first)
    assert [running(searched) for _ in RUNS] == ["confirm-000", "confirm-001", "confirm-002"]
    assert searched.controller.next_trial() is None


def test_after_a_kill_only_the_confirm_trials_without_a_result_run_again(searched: OpenSweep, out: Path) -> None:
    confirm(searched, RUNS)
    run_trial(searched)
    report(searched, running(searched), 1)
    resumed = bare_sweep(out, CONFIRM)
    resumed.log.record(TrialRequeued("confirm-001", -1))
    assert resumed.controller.study.unfinished == 0
    resumed.controller.confirm([])
    assert resumed.controller.queued_confirmations == 2
    assert [running(resumed) for _ in range(2)] == ["confirm-001", "confirm-002"]
    assert [trial.id for trial in resumed.log.state.ended_of(Phase.CONFIRM)] == ["confirm-000"]


def test_a_full_disk_ends_the_confirm_phase_until_resume(searched: OpenSweep) -> None:
    confirm(searched, RUNS)
    run_trial(searched, outcome=outcome("failed", error="OSError: [Errno 28] No space left on device"))
    assert searched.controller.next_trial() is None
    assert searched.controller.queued_confirmations == 2


def test_the_command_confirm_runs_no_trial_of_an_unfinished_search(out: Path) -> None:
    sweep = bare_sweep(out, CONFIRM)
    run_trial(sweep)
    running(sweep)
    resumed = bare_sweep(out, CONFIRM, limits=Limits(closed=SEARCH_CLOSED))
    assert (resumed.controller.next_trial(), resumed.controller.end) == (None, SEARCH_CLOSED)


# What does not count them ---------------------------------------------------------------------------------------------


def test_the_search_does_not_count_confirm_trials(searched: OpenSweep, out: Path) -> None:
    state, archive = searched.log.state, searched.controller.study.archive
    before = (state.trained_epochs, searched.remaining_trials, state.outcomes, list(archive.trace), archive.front)
    estimate, kept = searched.estimate(), searched.checkpoints.folders
    confirm(searched, RUNS)
    for _ in RUNS:
        run_trial(searched, outcome=replace(OUTCOME, losses={**OUTCOME.losses, "retain_loss": 0.0}))
    after = (state.trained_epochs, searched.remaining_trials, state.outcomes, list(archive.trace), archive.front)
    assert after == before
    assert (searched.estimate(), searched.checkpoints.folders) == (estimate, kept)
    assert searched.display.summary().startswith("3 of 3 trials done")
    assert states(out) == {"COMPLETE": 3}, "Optuna does not know the confirm trials"
    resumed = bare_sweep(out, CONFIRM)
    assert resumed.controller.study.archive.trace == archive.trace


def test_a_sweep_that_is_extended_after_its_confirmation_continues_its_numbers(searched: OpenSweep, out: Path) -> None:
    confirm(searched, RUNS)
    for _ in RUNS:
        run_trial(searched)
    extended = bare_sweep(out, replace(CONFIRM, trials=4))
    assert extended.remaining_trials == 1
    assert running(extended) == "00003"


def test_the_scheduler_neither_stops_a_confirm_trial_nor_compares_with_it(out: Path) -> None:
    scheduler = Mock(decide=Mock(return_value="stop"))
    sweep = bare_sweep(out, CONFIRM, scheduler=scheduler)
    run_trial(sweep, steps=1)
    run_trial(sweep, steps=1)
    confirm(sweep, [FreshRun("00000", 2.0, 1)])
    report(sweep, running(sweep), 1)
    assert sweep.log.state.trials["confirm-000"].cut is None
    assert [len(call.args[1]) for call in scheduler.decide.call_args_list] == [1, 2]
    assert sweep.controller._compared_trials() == sweep.log.state.trials_of(Phase.SEARCH)


def test_a_confirm_trial_is_not_reused_by_another_sweep(searched: OpenSweep, out: Path) -> None:
    confirm(searched, RUNS[:1])
    run_trial(searched)
    reusable = ReusableTrials([out])
    hashes = {trial_id: str(trial.settings["spec_hash"]) for trial_id, trial in searched.log.state.trials.items()}
    assert {trial_id for trial_id in hashes if reusable.find(hashes[trial_id])} == {"00000", "00001", "00002"}


def test_the_tables_have_the_phase_and_the_analysis_keeps_confirm_trials_apart(searched: OpenSweep, out: Path) -> None:
    confirm(searched, RUNS)
    run_trial(searched)
    report(searched, running(searched), 1)  # a running trial is only in history.csv
    tables = ResultTables(out)
    rows = [(row["trial_id"], row["phase"], row["confirms"], row["stop_epoch"]) for row in tables.trials.read()]
    assert rows == [*((f"0000{n}", "search", "", "") for n in range(3)), ("confirm-000", "confirm", "00001", "2.0")]
    assert {row["trial_id"] for row in tables.candidates.read()} == {"00000", "00001", "00002"}
    (out / "sweep.json").write_text(json.dumps({"format": 2, "settings": {}, "columns": {}}))
    table = TrialTable.read(out)
    for frame in (table.trials, table.history, table.candidates, table.models.trials):
        assert set(frame["trial_id"]) == {"00000", "00001", "00002"}
    assert table.running == ()
    assert list(table.fresh["trial_id"]) == ["confirm-000"]


def test_the_events_of_earlier_versions_are_trials_of_the_search(searched: OpenSweep, out: Path) -> None:
    log = out / "events.jsonl"
    log.write_text(log.read_text().replace(', "phase": "search", "confirms": ""', ""))
    assert '"phase"' not in log.read_text()
    assert len(read_state(out).trials_of(Phase.SEARCH)) == 3


# What is planned ------------------------------------------------------------------------------------------------------


def test_the_answer_is_confirmed_first_and_a_runner_up_only_if_the_answer_does_not_hold() -> None:
    state = SweepState()
    assert missing_runs([ANSWER, RUNNER_UP], CONFIRM, state) == RUNS
    assert missing_runs([], CONFIRM, state) == []
    held, broken = replace(ANSWER, runs=3, met=3), replace(ANSWER, runs=3, met=2)
    assert [model.holds for model in (ANSWER, held, broken)] == [False, True, False]


def test_runs_that_exist_are_not_planned_again(searched: OpenSweep) -> None:
    confirm(searched, RUNS)
    state = searched.log.state
    held, broken = replace(ANSWER, runs=3, met=3), replace(ANSWER, runs=3, met=2)
    assert missing_runs([held, RUNNER_UP], CONFIRM, state) == []
    next_runs = [FreshRun("00002", 4.0, seed) for seed in (1, 2, 3)]
    assert missing_runs([broken, RUNNER_UP], CONFIRM, state) == next_runs
    assert missing_runs([held], replace(CONFIRM, confirm=5), state) == [FreshRun("00001", 2.0, seed) for seed in (4, 5)]


def test_the_runs_end_if_no_model_holds(searched: OpenSweep) -> None:
    models = [Confirmed(trial_id, 2.0, runs=3, met=0) for trial_id in ("00000", "00001", "00002")]
    for model in models:
        confirm(searched, [FreshRun(model.trial_id, 2.0, seed) for seed in (1, 2, 3)])
    assert missing_runs(models, CONFIRM, searched.log.state) == []


@pytest.mark.parametrize(("epoch", "starts"), [(0.5, True), (1.0, False)])
def test_by_default_fresh_runs_train_at_most_a_quarter_of_the_epochs_of_the_search(
    searched: OpenSweep, epoch: float, starts: bool
) -> None:
    automatic, state = replace(SETTINGS, confirm=None), searched.log.state
    assert state.trained_epochs == 6.0, "so three runs of 0.5 epochs just fit"
    model = Confirmed("00001", epoch)
    assert bool(missing_runs([model], automatic, state)) is starts
    assert sum(run.epoch for run in wanted_runs([model], automatic, state)) == 3 * epoch


def test_the_fresh_seeds_follow_those_of_the_search_and_targets_are_made_only_if_seeds_vary_them() -> None:
    settings = replace(SETTINGS, seed=10, seeds=2, confirm=3)
    assert (settings.all_seeds, settings.fresh_seeds, settings.target_seeds) == ((10, 11), (12, 13, 14), (10,))
    assert replace(settings, seeds_vary="target").target_seeds == (10, 11, 12, 13, 14)
    assert replace(settings, confirm="none").fresh_seeds == ()
    assert SweepSettings.from_dict(settings.to_dict()) == settings
    assert replace(settings, confirm=None).fresh_seeds == (12, 13, 14)


@pytest.mark.parametrize(
    ("confirm", "epoch", "deadline", "runs", "reason"),
    [
        (None, 0.5, None, 3, ""),
        (
            None,
            2.0,
            None,
            0,
            "3 fresh runs of trial 00001 up to epoch 2 did not start, because their 6 epochs exceed",
        ),
        (None, 0.5, 0.0, 0, "because the time budget is used up"),
        (3, 2.0, 0.0, 3, ""),
        ("none", 2.0, None, 0, ""),
    ],
)
def test_fresh_runs_that_do_not_start_by_default_are_reported_with_the_reason(
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    confirm: int | str | None,
    epoch: float,
    deadline: float | None,
    runs: int,
    reason: str,
) -> None:
    sweep = bare_sweep(out, replace(SETTINGS, confirm=confirm))
    for _ in range(3):
        run_trial(sweep)
    sweep.controller.limits.deadline = deadline
    models = [] if confirm == "none" else [Confirmed("00001", epoch)]
    monkeypatch.setattr("sweeper.driver.confirmation._models", lambda sweep: models)
    assert has_fresh_runs(sweep) is (runs > 0)
    message = left_out(sweep) if not runs else ""
    assert reason in message
    assert bool(message) is bool(reason)


def test_the_confirm_phase_ends_when_no_run_is_planned(searched: OpenSweep, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner-up is trained because the answer misses the criterion in one run. Then nothing is left."""
    started: list[list[str]] = []

    def results() -> list[Confirmed]:
        ended = [trial.confirms for trial in searched.log.state.ended_of(Phase.CONFIRM)]
        counts = {trial_id: ended.count(trial_id) for trial_id in ("00001", "00002")}
        met = {"00001": max(0, counts["00001"] - 1), "00002": counts["00002"]}
        return [Confirmed(trial_id, 2.0, counts[trial_id], met[trial_id]) for trial_id in counts]

    def run_trials(sweep: OpenSweep, capacity: int) -> None:
        queued = sweep.controller.queued_confirmations
        started.append([run_trial(sweep) for _ in range(queued)])

    monkeypatch.setattr("sweeper.driver.confirmation._models", lambda sweep: results())
    monkeypatch.setattr("sweeper.driver.confirmation.run_trials", run_trials)
    confirm_answer(searched, capacity=2)
    assert started == [[f"confirm-{number:03d}" for number in part] for part in (range(3), range(3, 6))]
    assert not has_fresh_runs(searched)
