"""The scheduler between Ray Tune and the session, without Ray's processes: which trials run, wait and end."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher
from sweeper.session import SweepSession

from search_spaces.builtin import default_space
from sweeper.execution.ray_bridge import SessionCallback, SessionSearcher, what_runs_when
from sweeper.execution.tune_scheduler import TuneScheduler
from sweeper.search.halving import Mode, SuccessiveHalving
from sweeper.search.schedulers import compared_objectives, comparison_axes, restore
from sweeper.settings.objectives import axes, parse_objectives
from tests.sweeper.conftest import SETTINGS as ANY
from tests.sweeper.conftest import bare_session, running

COLUMNS = ("forget_loss_capped", "retain_loss")
AXES = ((7.0, 0.0), (0.0, 7.0))
SETTINGS = replace(ANY, space=default_space(methods={"ngdiff": {}}), trials=4)


def halving(mode: Mode) -> SuccessiveHalving:
    return SuccessiveHalving(AXES, epochs=9, grace=1, reduction=3, mode=mode)


class Controller:
    """As much of Tune's controller as a scheduler uses."""

    def __init__(self, gate: TuneScheduler) -> None:
        self.gate = gate
        self.trials: list[Any] = []
        self.stopped: list[Any] = []
        self.search_alg = SimpleNamespace(is_finished=lambda: self.finished)
        self.finished = False

    def get_trials(self) -> list[Any]:
        return self.trials

    def stop_trial(self, trial: Any) -> None:
        trial.status = "TERMINATED"
        self.stopped.append(trial)

    def add(self, trial_id: str, *, status: str = "RUNNING") -> Any:
        trial = SimpleNamespace(config={"trial_id": trial_id}, status=status)
        self.trials.append(trial)
        self.gate.on_trial_add(self, trial)
        return trial

    def report(self, trial: Any, epoch: float, forget: float, retain: float = 0.1) -> str:
        result = {"report/epoch": epoch, "report/forget_loss_capped": forget, "report/retain_loss": retain}
        answer = self.gate.on_trial_result(self, trial, result)
        trial.status = {"PAUSE": "PAUSED", "STOP": "TERMINATED"}.get(answer, trial.status)
        return answer


def controller(mode: Mode = "pause", *, at_once: int = 1, **given: Any) -> Controller:
    return Controller(TuneScheduler(halving(mode), COLUMNS, at_once=at_once, **given))


@pytest.mark.parametrize(("mode", "answer"), [("stop", TrialScheduler.STOP), ("pause", TrialScheduler.PAUSE)])
def test_a_trial_that_falls_behind_is_stopped_or_paused(mode: Mode, answer: str) -> None:
    heard: list[str] = []
    tune = controller(mode, on_pause=heard.append)
    assert tune.gate.set_search_properties("loss", "min")
    assert tune.gate.metric is None, "a list would crash Tune's controller"
    assert tune.report(tune.add("0"), 1.0, 5.0) == TrialScheduler.CONTINUE
    worse = tune.add("1")
    assert tune.report(worse, 0.5, 1.0) == TrialScheduler.CONTINUE, "not a rung"
    assert tune.report(worse, 1.0, 2.0) == answer
    assert heard == (["1"] if mode == "pause" else [])


def test_a_report_without_an_epoch_and_an_error_of_the_scheduler_stop_nothing() -> None:
    tune = controller("stop")
    trial = tune.add("0")
    assert tune.gate.on_trial_result(tune, trial, {"done": False}) == TrialScheduler.CONTINUE
    tune.gate._scheduler = None  # type: ignore[assignment]
    assert tune.report(trial, 1.0, 1.0) == TrialScheduler.CONTINUE


def test_a_paused_trial_goes_on_before_a_new_one_comes_and_only_when_a_worker_is_free() -> None:
    tune = controller()
    first = tune.add("0")
    tune.report(first, 1.0, 6.0)
    first.status = "TERMINATED"
    waiting = [tune.add(str(number)) for number in (1, 2, 3)]
    for trial, forget in zip(waiting, (5.0, 2.0, 1.0), strict=True):
        assert tune.gate.choose_trial_to_run(tune) is None
        tune.report(trial, 1.0, forget)
    assert not tune.gate.has_room(), "of four one more may go on"
    assert tune.gate.choose_trial_to_run(tune) is waiting[0]
    waiting[0].status = "RUNNING"
    assert not tune.gate.has_room(), "the worker is taken"
    assert tune.gate.choose_trial_to_run(tune) is None
    waiting[0].status = "TERMINATED"
    assert tune.gate.has_room()
    new = tune.add("4", status="PENDING")
    assert tune.gate.choose_trial_to_run(tune) is new


def test_when_the_sweep_is_over_nothing_is_promoted_and_waiting_trials_end() -> None:
    tune = controller()
    for number, forget in enumerate((6.0, 5.0)):
        tune.report(tune.add(str(number)), 1.0, forget)
    tune.trials[0].status = "TERMINATED"
    assert tune.gate.choose_trial_to_run(tune) is None
    assert tune.stopped == []
    tune.finished = True
    assert tune.gate.choose_trial_to_run(tune) is None
    assert tune.stopped == tune.trials[1:]
    tune = controller(is_over=lambda: True)  # time or epochs are spent
    for number, forget in enumerate((6.0, 5.0, 4.0, 3.0)):
        tune.report(tune.add(str(number)), 1.0, forget)
        tune.trials[0].status = "TERMINATED"
    assert tune.gate.choose_trial_to_run(tune) is None


# Together with the session ------------------------------------------------------------------------------------------


def scheduled(out: Path, mode: Mode) -> SweepSession:
    """A session as it begins, or as it goes on after a kill."""
    session = bare_session(out, SETTINGS, scheduler=halving(mode))
    assert session.scheduler is not None
    restore(session.scheduler, COLUMNS, session.tables.history.read())
    session.study.restore({row["trial_id"]: row for row in session.tables.trials.read()})
    return session


def train(session: SweepSession, forget: float, *, epochs: int = 1) -> str:
    """The next trial, for some epochs, and what its scheduler says of the last."""
    trial_id = running(session)
    for epoch in range(1, epochs + 1):
        report = {"step": epoch, "epoch": float(epoch), "forget_loss_capped": forget, "retain_loss": 0.1}
        assert session.scheduler is not None
        answer = session.scheduler.judge(trial_id, epoch, (forget, 0.1))
        session.reported(trial_id, report)
    return str(answer)


@pytest.mark.parametrize("mode", ["stop", "pause"])
def test_after_a_kill_a_waiting_trial_is_kept_back_until_its_rank_allows_it(tmp_path: Path, mode: Mode) -> None:
    session = scheduled(tmp_path, mode)
    assert [train(session, forget) for forget in (5.0, 4.0)] == ["continue", mode]

    session = scheduled(tmp_path, mode)
    assert running(session) == "00000"
    assert train(session, 3.0) == mode
    following = session.next_trial()
    promoted = following and following[0].trial_id
    assert promoted == ("00001" if mode == "pause" else "00003"), "the one that waited, else a new one"
    session.stop_waiting()
    rows = {row["trial_id"]: row for row in session.tables.trials.read()}
    assert list(rows) == ([] if mode == "pause" else ["00001"])
    if mode == "stop":
        assert (rows["00001"]["status"], rows["00001"]["epochs_done"]) == ("stopped", "1.0")
        assert float(rows["00001"]["forget_loss_capped"]) == 4.0


def test_after_a_kill_the_last_trials_may_all_be_waiting_ones(tmp_path: Path) -> None:
    """One goes on as the sweep begins again; when it is over, nobody is left to run."""
    session = scheduled(tmp_path, "pause")
    assert [train(session, forget) for forget in (5.0, 4.0, 3.0, 2.0)] == ["continue", *["pause"] * 3]
    session.ended("00000", {"status": "finished", "forget_loss_capped": 5.0, "retain_loss": 0.1})

    session = scheduled(tmp_path, "pause")
    assert session.has_next()
    assert running(session) == "00001"
    session.ended("00001", {"status": "finished", "forget_loss_capped": 4.0, "retain_loss": 0.1})
    assert not session.has_next()
    session.stop_waiting()
    assert sorted(row["trial_id"] for row in session.tables.trials.read()) == ["00000", "00001", "00002", "00003"]


def test_a_promoted_trial_stays_promoted_after_a_kill(tmp_path: Path) -> None:
    """Its epochs beyond the rung say that it went on."""
    session = scheduled(tmp_path, "pause")
    assert train(session, 5.0) == "continue"
    assert train(session, 4.0, epochs=2) == "continue"
    assert scheduled(tmp_path, "pause").scheduler.ended_at("00001") is None  # type: ignore[union-attr]


def test_a_trial_the_scheduler_ended_is_stopped_and_not_failed(tmp_path: Path) -> None:
    session = scheduled(tmp_path, "stop")
    train(session, 5.0)
    assert train(session, 1.0) == "stop"
    trial = SimpleNamespace(config={"trial_id": "00001"}, last_result={"report": {"step": 1}}, get_error=lambda: None)
    SessionCallback(session).on_trial_complete(1, [], trial)
    (row,) = session.tables.trials.read()
    assert (row["trial_id"], row["status"], row["error"], row["checkpoint"]) == ("00001", "stopped", "", "")


def test_the_search_ends_only_when_none_of_the_waiting_can_go_on(tmp_path: Path) -> None:
    session = scheduled(tmp_path, "pause")
    gate = TuneScheduler(halving("pause"), COLUMNS, at_once=2)
    tune = Controller(gate)
    searcher = SessionSearcher(session, restore_folders={}, gate=gate)
    for _ in range(2):
        tune.add(searcher.suggest("")["trial_id"])
    assert searcher.suggest("") is None, "both workers are busy"
    for trial in tune.trials:
        trial.status = "TERMINATED"
    for _ in range(2):
        tune.add(searcher.suggest("")["trial_id"])
    tune.trials[2].status = "TERMINATED"
    assert searcher.suggest("") is None, "one that runs may let another go on"
    tune.trials[3].status = "TERMINATED"
    assert searcher.suggest("") == Searcher.FINISHED


def test_tunes_own_limits_hold_unless_trials_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "auto")
    given: dict[str, Any] = {"left": 3, "at_once": 2, "columns": COLUMNS, "restore_folders": {}}
    found = what_runs_when(scheduled(tmp_path, "stop"), pausing=False, **given)
    assert (found["num_samples"], found["max_concurrent_trials"]) == (3, 2)
    found = what_runs_when(scheduled(tmp_path, "pause"), pausing=True, **given)
    assert (found["num_samples"], found["max_concurrent_trials"]) == (-1, None)


# What is compared ----------------------------------------------------------------------------------------------------


def test_a_retain_loss_is_compared_in_the_logarithm_and_a_forget_loss_as_it_is() -> None:
    forget, retain = comparison_axes(axes(parse_objectives("forget_loss:max,retain_loss:min"), 7.6))
    assert [forget.cost(value) for value in (7.6, 3.8, 0.0)] == [0.0, 0.5, 1.0]
    assert (retain.cost(0.0), retain.cost(7.6)) == (0.0, pytest.approx(1.0))
    assert retain.cost(0.3) - retain.cost(0.03) > 5 * (retain.cost(3.3) - retain.cost(3.03))
    assert math.isnan(retain.cost(None))
    verbmem, utility = comparison_axes(axes(parse_objectives("verbmem:min,utility:max"), 7.6))
    assert (verbmem.cost(0.3), utility.cost(0.3)) == (pytest.approx(0.3), pytest.approx(0.7))


def test_objectives_that_not_every_epoch_has_are_stood_in_for_by_the_losses() -> None:
    scores = parse_objectives("verbmem:min,utility:max")
    assert compared_objectives(scores, metrics_every=1) == scores
    for every in (None, 2):
        assert [item.column for item in compared_objectives(scores, metrics_every=every)] == list(COLUMNS)
    losses = parse_objectives("retain_loss:min,forget_loss:max")
    assert compared_objectives(losses, metrics_every=None) == losses
