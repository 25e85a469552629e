"""The cost of a sweep so far and the estimate of what remains."""

from __future__ import annotations

import time

import pytest

from sweeper.settings.resources import Resources
from sweeper.store.events import OptunaTrial
from sweeper.store.progress import Remaining, cost_of, remaining
from sweeper.store.state import Stage, SweepState, Trial
from tests.sweeper.conftest import outcome
from trainables.run.reports import Outcome

RESOURCES = Resources(cpus=2.0, gpus=0.25)
FAILED = outcome("failed")
TIMES = tuple(outcome(wall_seconds=seconds, epochs_done=15.0) for seconds in (30.0, 50.0))


def state_of(*outcomes: Outcome, reused: int = 0) -> SweepState:
    """Return a state with these ended trials. The last ``reused`` trials are reused."""
    trials = [
        Trial(f"{number:05}", {}, OptunaTrial(), stage=Stage.ENDED, outcome=item)
        for number, item in enumerate(outcomes)
    ]
    for trial in trials[len(trials) - reused :]:
        trial.reused_from = "previous/00001"
    return SweepState({trial.id: trial for trial in trials}, {trial.id: None for trial in trials})


def test_the_cost_is_the_time_of_trained_and_running_trials_with_their_shares_of_a_gpu() -> None:
    state = state_of(outcome(wall_seconds=3600.0), FAILED, outcome(wall_seconds=9.0), reused=1)
    cost = cost_of(state, RESOURCES)
    assert (cost.seconds, cost.gpu_hours, cost.cpu_hours) == (3600.0, 0.25, 2.0)
    state.trials["r"] = Trial("r", {}, OptunaTrial(), stage=Stage.RUNNING, started_at=time.time() - 100)
    assert cost_of(state, RESOURCES).seconds == pytest.approx(3700, abs=30)
    measured = state_of(outcome(wall_seconds=3600.0, gpu_share=0.5), outcome(wall_seconds=3600.0))
    assert cost_of(measured, RESOURCES).gpu_hours == 0.75


@pytest.mark.parametrize(
    ("ended", "trials", "epochs_left", "max_concurrent", "expected"),
    [
        ((), 10, None, 2, Remaining(10)),
        ((FAILED,), 10, None, 2, Remaining(9)),
        (TIMES, 10, None, 2, Remaining(8, 160.0)),
        ((*TIMES, FAILED), 10, None, 2, Remaining(7, 140.0)),
        (TIMES, 3, None, 8, Remaining(1, 40.0)),
        (TIMES, 10, 25.0, 1, Remaining(2, 80.0)),  # a budget of 25 epochs
    ],
)
def test_the_estimate_follows_the_times_so_far_the_trials_that_run_at_once_and_the_epoch_budget(
    ended: tuple[Outcome, ...], trials: int, epochs_left: float | None, max_concurrent: int, expected: Remaining
) -> None:
    found = remaining(state_of(*ended), trials=trials, epochs_left=epochs_left, max_concurrent=max_concurrent)
    assert found == expected
    assert str(Remaining(8, 160.0)) == "about 8 trials in 2 min 40 s"
