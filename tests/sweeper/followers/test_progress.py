"""The cost of a sweep so far and the estimate of what remains."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sweeper.followers.progress import Remaining, cost_of, remaining
from sweeper.settings.resources import Resources
from sweeper.store.state import Phase, SweepState, Trial

RESOURCES = Resources(cpus=2.0, gpus=0.25)


def state_of(*outcomes: dict[str, Any], reused: int = 0) -> SweepState:
    """Ended trials, the last of which are reused."""
    trials = [Trial(f"{number:05}", {}, phase=Phase.ENDED, outcome=item) for number, item in enumerate(outcomes)]
    for trial in trials[len(trials) - reused :]:
        trial.reused_from = "previous/00001"
    return SweepState({trial.id: trial for trial in trials}, {trial.id: None for trial in trials})


def test_reused_trials_cost_nothing_and_running_ones_cost_what_they_took_so_far() -> None:
    state = state_of({"wall_seconds": 3600.0}, {"status": "failed"}, {"wall_seconds": 9.0}, reused=1)
    cost = cost_of(state, RESOURCES)
    assert (cost.seconds, cost.gpu_hours, cost.cpu_hours) == (3600.0, 0.25, 2.0)
    state.trials["r"] = Trial("r", {}, phase=Phase.RUNNING, started_at=time.time() - 100)
    assert cost_of(state, RESOURCES).seconds == pytest.approx(3700, abs=30)


def test_a_trial_with_a_measured_share_costs_this_share() -> None:
    state = state_of({"wall_seconds": 3600.0, "gpu_share": 0.5}, {"wall_seconds": 3600.0})
    assert cost_of(state, RESOURCES).gpu_hours == 0.75


def test_without_a_time_only_the_trials_are_estimated() -> None:
    assert remaining(SweepState(), trials=10, epochs_left=None, max_concurrent=2) == Remaining(10)
    assert remaining(state_of({"status": "failed"}), trials=10, epochs_left=None, max_concurrent=2) == Remaining(9)


def test_the_estimate_follows_the_times_so_far_and_the_trials_that_run_at_once() -> None:
    times = [{"wall_seconds": 30.0, "epochs_done": 15.0}, {"wall_seconds": 50.0, "epochs_done": 15.0}]
    found = remaining(state_of(*times), trials=10, epochs_left=None, max_concurrent=2)
    assert found == Remaining(8, 160.0)
    assert "2 min 40 s" in str(found)
    without_time = state_of(*times, {"status": "failed"})
    assert remaining(without_time, trials=10, epochs_left=None, max_concurrent=2) == Remaining(7, 140.0)
    assert remaining(state_of(*times), trials=3, epochs_left=None, max_concurrent=8) == Remaining(1, 40.0)


def test_a_nearly_spent_epoch_budget_leaves_fewer_trials() -> None:
    state = state_of({"wall_seconds": 20.0, "epochs_done": 15.0})
    assert remaining(state, trials=10, epochs_left=25.0, max_concurrent=1) == Remaining(2, 40.0)
