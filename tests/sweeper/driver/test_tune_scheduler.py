"""The scheduler in Ray Tune, without Ray's processes: trials that run, pause and end."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.search import Searcher

from search_spaces.builtin import default_space
from sweeper.driver.open_sweep import OpenSweep
from sweeper.driver.ray_bridge import ReportRecorder, TrialSearcher
from sweeper.driver.tune_scheduler import TuneScheduler
from sweeper.search.halving import Mode, SuccessiveHalving
from sweeper.search.schedulers import compared_objectives, with_comparison_scales
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, parse_objectives, with_bounds
from sweeper.store.events import TrialPromoted, TrialRequeued, TrialStarted
from sweeper.store.state import Stage
from tests.sweeper.conftest import SETTINGS as ANY
from tests.sweeper.conftest import bare_sweep, end_trial, epoch_report, report, running

AXES = tuple(replace(item, low=0.0, high=7.0) for item in parse_objectives(DEFAULT_OBJECTIVES))
SETTINGS = replace(ANY, space=default_space(methods={"ngdiff": {}}), trials=4)


class Tune:
    """The part of Tune's controller that a scheduler uses."""

    def __init__(self, sweep: OpenSweep, *, max_concurrent: int = 1) -> None:
        self.sweep = sweep
        self.scheduler = TuneScheduler(sweep, max_concurrent=max_concurrent)
        self.trials: list[Any] = []
        self.stopped: list[Any] = []
        self.finished = False
        self.search_alg = SimpleNamespace(is_finished=lambda: self.finished)

    def get_trials(self) -> list[Any]:
        return self.trials

    def stop_trial(self, trial: Any) -> None:
        trial.status = "TERMINATED"
        self.stopped.append(trial)

    def add(self, trial_id: str, *, status: str = "RUNNING") -> Any:
        trial = SimpleNamespace(config={"trial_id": trial_id}, status=status)
        self.trials.append(trial)
        self.scheduler.on_trial_add(self, trial)
        return trial

    def report(self, trial: Any, epoch: float, forget: float) -> str:
        found = epoch_report(int(10 * epoch), epoch=epoch, forget_loss_capped=forget, retain_loss=0.1)
        ReportRecorder(self.sweep)("", {"config": trial.config, "report": found})
        answer = self.scheduler.on_trial_result(self, trial, {"report": found})
        trial.status = {"PAUSE": "PAUSED", "STOP": "TERMINATED"}.get(answer, trial.status)
        return answer

    def next(self) -> Any:
        return self.scheduler.choose_trial_to_run(self)


def scheduled(out: Path, mode: Mode, *, trials: int = 4, reduction: int | None = 3) -> OpenSweep:
    """Return a new sweep or, if the folder has events, the resumed sweep."""
    halving = None
    if reduction is not None:
        halving = SuccessiveHalving(AXES, epochs=9, grace=1, reduction=reduction, mode=mode)
    return bare_sweep(out, replace(SETTINGS, trials=trials), scheduler=halving)


def tune_of(out: Path, mode: Mode = "pause") -> Tune:
    """Return Tune with the scheduler of a sweep whose twelve trials have all been proposed."""
    sweep = scheduled(out, mode, trials=12)
    for _ in range(12):
        running(sweep)
    return Tune(sweep)


@pytest.mark.parametrize("mode", ["stop", "pause"])
def test_a_trial_that_falls_behind_is_stopped_or_paused(tmp_path: Path, mode: Mode) -> None:
    tune = tune_of(tmp_path, mode)
    assert tune.scheduler.set_search_properties("loss", "min")
    assert tune.scheduler.metric is None, "a list would crash Tune's controller"
    assert tune.report(tune.add("00000"), 1.0, 5.0) == "CONTINUE"
    worse = tune.add("00001")
    assert [tune.report(worse, 0.5, 1.0), tune.report(worse, 1.0, 2.0)] == ["CONTINUE", mode.upper()]
    stage = tune.sweep.log.state.trials["00001"].stage
    assert stage is (Stage.PAUSED if mode == "pause" else Stage.RUNNING)
    assert tune.scheduler.on_trial_result(tune, worse, {"done": False}) == "CONTINUE", "there is no report"
    tune.sweep.controller.scheduler = object()  # type: ignore[assignment]
    assert tune.report(worse, 2.0, 1.0) == "CONTINUE", "after an error of the scheduler"


def test_a_promoted_trial_runs_before_a_new_trial_and_only_on_a_free_worker(tmp_path: Path) -> None:
    tune = tune_of(tmp_path)
    first = tune.add("00000")
    tune.report(first, 1.0, 6.0)
    first.status = "TERMINATED"
    waiting = [tune.add(f"0000{number}") for number in (1, 2, 3)]
    for trial, forget in zip(waiting, (5.0, 2.0, 1.0), strict=True):
        assert tune.next() is None
        tune.report(trial, 1.0, forget)
    assert not tune.scheduler.has_room(), "one of the four trials is promoted"
    assert tune.next() is waiting[0]
    waiting[0].status = "RUNNING"
    assert not tune.scheduler.has_room(), "the worker is taken"
    assert tune.next() is None
    waiting[0].status = "TERMINATED"
    assert tune.scheduler.has_room()
    new = tune.add("00004", status="PENDING")
    assert tune.next() is new


@pytest.mark.parametrize("is_out_of_time", [False, True])
def test_when_the_sweep_is_over_no_trial_is_promoted_and_paused_trials_end(
    tmp_path: Path, is_out_of_time: bool
) -> None:
    tune = tune_of(tmp_path)
    if is_out_of_time:  # otherwise one of four trials would be promoted
        tune.sweep.controller.limits.deadline = 0.0
    for number in range(4 if is_out_of_time else 2):
        tune.report(tune.add(f"0000{number}"), 1.0, 6.0 - number)
        tune.trials[0].status = "TERMINATED"
    assert (tune.next(), tune.stopped) == (None, [])
    tune.finished = True
    assert tune.next() is None
    assert tune.stopped == tune.trials[1:]


def train(sweep: OpenSweep, forget: float, *, epochs: int = 1) -> str:
    """Run some epochs of the next trial. Return the scheduler's decision after the last epoch."""
    trial_id = running(sweep)
    for epoch in range(1, epochs + 1):
        report(sweep, trial_id, epoch, forget_loss_capped=forget, retain_loss=0.1)
    cut = sweep.log.state.trials[trial_id].cut
    return "continue" if cut is None else "pause" if cut.waits else "stop"


def killed_and_resumed(out: Path, mode: Mode) -> OpenSweep:
    sweep = scheduled(out, mode)
    for trial in list(sweep.log.state.trials.values()):
        if trial.outcome is None:
            sweep.log.record(TrialRequeued(trial.id, trial.last_step))
    return scheduled(out, mode)


def ended(sweep: OpenSweep) -> list[str]:
    return [trial.id for trial in sweep.log.state.ended_trials]


@pytest.mark.parametrize("mode", ["stop", "pause"])
def test_after_a_kill_a_paused_trial_waits_until_it_is_promoted(tmp_path: Path, mode: Mode) -> None:
    sweep = scheduled(tmp_path, mode)
    assert [train(sweep, forget) for forget in (5.0, 4.0)] == ["continue", mode]
    sweep = killed_and_resumed(tmp_path, mode)
    assert running(sweep) == "00000"
    assert train(sweep, 3.0) == mode
    following = sweep.controller.next_trial()
    assert following is not None
    assert following.id == ("00001" if mode == "pause" else "00003"), "the paused trial, or a new trial"
    sweep.controller.end_paused(all_trials=True)
    assert ended(sweep) == ([] if mode == "pause" else ["00001"])


@pytest.mark.parametrize("later", [3, 2, None], ids=["the same", "another reduction", "no scheduler"])
def test_a_changed_scheduler_changes_no_earlier_decision(tmp_path: Path, later: int | None) -> None:
    """If R is 3, the second of two trials is cut. If R is 2, this trial would have continued."""
    sweep = scheduled(tmp_path, "pause")
    assert [train(sweep, forget) for forget in (5.0, 4.0)] == ["continue", "pause"]
    sweep.log.record(TrialRequeued("00000", 1))
    sweep.log.record(TrialRequeued("00001", 1))
    resumed = scheduled(tmp_path, "pause", reduction=later)
    assert [trial.id for trial in resumed.log.state.at_stage(Stage.PAUSED)] == ["00001"]
    # The first trial continues, the second waits until the scheduler of the resumed sweep promotes it.
    following = [running(resumed) for _ in range(3)]
    assert following == ["00000", "00002", "00001" if later == 2 else "00003"]
    decisions = [type(record.event) for record in resumed.log.records if isinstance(record.event, TrialPromoted)]
    assert len(decisions) == (later == 2)


def test_a_decision_is_made_once_even_if_a_restarted_worker_repeats_its_reports(tmp_path: Path) -> None:
    tune = tune_of(tmp_path, "pause")
    first, second = tune.add("00000"), tune.add("00001")
    assert tune.report(first, 1.0, 1.0) == "CONTINUE"
    assert [tune.report(second, 0.5, 1.0), tune.report(second, 1.0, 0.5)] == ["CONTINUE", "PAUSE"]
    for number in (2, 3):
        tune.report(tune.add(f"0000{number}"), 1.0, 5.0 + number)
    before = len(tune.sweep.log.records)
    assert tune.report(first, 1.0, 1.0) == "CONTINUE", "the first trial would be cut now"
    assert len(tune.sweep.log.records) == before
    tune.sweep.log.record(TrialStarted("00001"))
    assert [tune.report(second, 0.5, 1.0), tune.report(second, 1.0, 0.5)] == ["CONTINUE", "PAUSE"]
    assert tune.sweep.log.state.trials["00001"].stage is Stage.PAUSED


def test_after_a_kill_a_paused_trial_ends_when_a_user_stops_it(tmp_path: Path) -> None:
    sweep = scheduled(tmp_path, "pause")
    assert [train(sweep, forget) for forget in (5.0, 4.0)] == ["continue", "pause"]
    sweep = killed_and_resumed(tmp_path, "pause")
    assert [running(sweep), running(sweep)] == ["00000", "00002"]
    sweep.controller.end_paused(all_trials=False)
    assert ended(sweep) == [], "no user asked"
    sweep.controller.request_stop("00001")
    sweep.controller.end_paused(all_trials=False)
    assert ended(sweep) == ["00001"]
    row = sweep.log.state.trials["00001"].row()
    assert (row["status"], row["epochs_done"], row["forget_loss_capped"]) == ("stopped", 1.0, 4.0)


def test_after_a_kill_the_last_trials_may_all_be_paused(tmp_path: Path) -> None:
    sweep = scheduled(tmp_path, "pause")
    assert [train(sweep, forget) for forget in (5.0, 4.0, 3.0, 2.0)] == ["continue", *["pause"] * 3]
    end_trial(sweep, "00000")
    sweep = killed_and_resumed(tmp_path, "pause")
    assert sweep.controller.queue_next()
    assert running(sweep) == "00001"
    end_trial(sweep, "00001")
    assert not sweep.controller.queue_next()
    sweep.controller.end_paused(all_trials=True)
    assert sorted(ended(sweep)) == ["00000", "00001", "00002", "00003"]


def test_the_search_ends_only_when_no_paused_trial_can_continue(tmp_path: Path) -> None:
    tune = Tune(scheduled(tmp_path, "pause"), max_concurrent=2)
    searcher = TrialSearcher(tune.sweep, tune.scheduler)
    first, second = (tune.add(searcher.suggest("")["trial_id"]) for _ in range(2))
    assert searcher.suggest("") is None, "both workers are busy"
    first.status = second.status = "TERMINATED"
    third, fourth = (tune.add(searcher.suggest("")["trial_id"]) for _ in range(2))
    third.status = "TERMINATED"
    assert searcher.suggest("") is None, "a running trial may lead to a promotion"
    fourth.status = "TERMINATED"
    assert searcher.suggest("") == Searcher.FINISHED


def test_retain_losses_are_compared_on_a_log_scale_and_forget_losses_on_a_linear_scale() -> None:
    forget, retain = with_comparison_scales(with_bounds(parse_objectives("forget_loss:max,retain_loss:min"), 7.6))
    assert [forget.cost(value) for value in (7.6, 3.8, 0.0)] == [0.0, 0.5, 1.0]
    assert (retain.cost(0.0), retain.cost(7.6)) == (0.0, pytest.approx(1.0))
    assert retain.cost(0.3) - retain.cost(0.03) > 5 * (retain.cost(3.3) - retain.cost(3.03))
    assert math.isnan(retain.cost(math.nan))
    verbmem, utility = with_comparison_scales(with_bounds(parse_objectives("verbmem:min,utility:max"), 7.6))
    assert (verbmem.cost(0.3), utility.cost(0.3)) == (pytest.approx(0.3), pytest.approx(0.7))


def test_losses_replace_objectives_that_are_not_measured_after_every_epoch() -> None:
    scores = parse_objectives("verbmem:min,utility:max")
    assert compared_objectives(scores, metrics_every=1) == scores
    for every in (None, 2):
        assert [item.column for item in compared_objectives(scores, metrics_every=every)] == [
            item.column for item in AXES
        ]
    losses = parse_objectives("retain_loss:min,forget_loss:max")
    assert compared_objectives(losses, metrics_every=None) == losses


def test_metrics_that_come_with_the_losses_are_compared_at_every_evaluation() -> None:
    objectives = parse_objectives("extraction_strength:min,retain_loss:min")
    assert compared_objectives(objectives, metrics_every=None) == objectives
