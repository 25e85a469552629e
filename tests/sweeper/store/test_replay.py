"""A replay of the first events gives the state of the live sweep, and nothing acts before an event is on disk."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces.builtin import default_space
from sweeper.driver.open_sweep import OpenSweep
from sweeper.followers import checkpoints
from sweeper.search.halving import SuccessiveHalving
from sweeper.search.limits import Limits
from sweeper.search.reuse import ReusableTrials
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, parse_objectives
from sweeper.store.event_log import Follower, read_records
from sweeper.store.events import Event, MetricsMeasured, TrialReported, TrialRequeued, TrialReused, TrialStarted
from sweeper.store.progress import remaining
from sweeper.store.state import SweepState
from tests.sweeper.conftest import OUTCOME, SETTINGS, bare_sweep, end_trial, outcome, report, run_trial, running

AXES = tuple(replace(item, low=0.0, high=7.0) for item in parse_objectives(DEFAULT_OBJECTIVES))
SMALL = replace(SETTINGS, space=default_space(methods={"ngdiff": {}}), trials=9)
NODE_LOST = outcome("failed", error="the node was lost")
NO_MODEL = replace(OUTCOME, checkpoint=None)


def opened(out: Path) -> OpenSweep:
    """A sweep with a scheduler that pauses, an epoch budget, and reuse of its own trials."""
    halving = SuccessiveHalving(AXES, epochs=9, grace=1, reduction=3, mode="pause")
    options: dict[str, Any] = {"scheduler": halving, "limits": Limits(epoch_budget=60)}
    return bare_sweep(out, SMALL, reusable=ReusableTrials([out]), **options)


def epoch(sweep: OpenSweep, trial_id: str, step: int, forget: float) -> None:
    (sweep.out / f"checkpoints/{trial_id}-epoch-{step}").mkdir(parents=True, exist_ok=True)
    report(sweep, trial_id, step, forget_loss_capped=forget, retain_loss=0.5)


def pause_and_stop(sweep: OpenSweep) -> None:
    """Three trials, of which the scheduler pauses one; it is promoted, another is stopped by a user."""
    first, second, third = (running(sweep) for _ in range(3))
    epoch(sweep, first, 1, 5.0)
    epoch(sweep, second, 1, 4.0)
    epoch(sweep, first, 2, 5.5)
    end_trial(sweep, first, NO_MODEL)
    epoch(sweep, third, 1, 3.0)
    sweep.controller.request_stop(third)
    sweep.controller.end_stopped(third)
    assert sweep.controller.promote([second]) == second
    sweep.log.record(TrialStarted(second))
    epoch(sweep, second, 2, 6.0)
    end_trial(sweep, second, replace(NO_MODEL, losses={**NO_MODEL.losses, "forget_loss_capped": 6.0}))
    sweep.log.record(MetricsMeasured(second, 1, {"verbmem": 0.25}))


def fail(sweep: OpenSweep) -> None:
    """A trial on a lost node continues from its state; a trial diverges; a trial fails by itself."""
    lost = running(sweep)
    epoch(sweep, lost, 1, 5.0)
    epoch(sweep, lost, 2, 6.0)
    end_trial(sweep, lost, NODE_LOST)
    sweep.log.record(TrialRequeued(lost, 1))
    run_trial(sweep, outcome=outcome("diverged", error="NaN", steps=2))
    run_trial(sweep, outcome=outcome("failed", error="ValueError"))
    sweep.log.record(TrialStarted(lost))
    epoch(sweep, lost, 2, 6.0)
    end_trial(sweep, lost, NO_MODEL)


def reuse(sweep: OpenSweep) -> None:
    origin = run_trial(sweep, outcome=NO_MODEL)
    copied = running(sweep)
    sweep.log.record(TrialReused(copied, f"{sweep.out}/{origin}"))
    for item in sweep.log.state.trials[origin].reports:
        sweep.log.record(TrialReported(copied, item))
    end_trial(sweep, copied, NO_MODEL)


def train_with_a_full_disk(sweep: OpenSweep) -> None:
    trial_id = running(sweep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        epoch(sweep, trial_id, 1, 2.0)
        end_trial(sweep, trial_id, NO_MODEL)
        assert sweep.log.unwritten_trials == 1
    assert sweep.log.flush()


def full_disk(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def snapshot(sweep: OpenSweep) -> dict[str, Any]:
    """The state of each part of a sweep that is computed from the events."""
    controller, state = sweep.controller, sweep.log.state
    assert controller.scheduler is not None
    return {
        "state": copy.deepcopy(state),
        "trace": list(controller.study.archive.trace),
        "cut": [trial.id for trial in state.trials.values() if trial.cut is not None],
        "front": sweep.checkpoints.folders,
        "epochs": state.trained_epochs,
        "remaining": remaining(state, trials=9, epochs_left=60 - state.trained_epochs, max_concurrent=2),
        "failure": controller.failure,
        "over": controller.limits.end(trained=state.trained_epochs, trace=controller.study.archive.trace),
    }


@dataclass
class Recorder(Follower):
    """The last follower of a live sweep. Takes a snapshot after each event."""

    sweep: OpenSweep
    snapshots: list[dict[str, Any]] = field(default_factory=list)

    def apply(self, event: Event, state: SweepState) -> None:
        self.snapshots.append(snapshot(self.sweep))


@pytest.mark.usefixtures("no_fsync")
def test_each_part_concludes_live_what_it_concludes_from_a_prefix_of_the_log_and_acts_only_on_events_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = opened(tmp_path)
    recorder = Recorder(sweep)
    sweep.log.attach(recorder)
    before, acted = len(sweep.log.records), set[str]()

    def durable(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **kwargs: Any) -> Any:
            acted.add(name)
            assert read_records(tmp_path / "events.jsonl") == sweep.log.records
            assert not sweep.log.unwritten_trials
            return action(*args, **kwargs)

        return checked

    with monkeypatch.context() as patch:
        patch.setattr(sweep.controller.study, "tell", durable("tell", sweep.controller.study.tell))
        for name in ("remove_atomically", "remove_states"):
            patch.setattr(checkpoints, name, durable(name, getattr(checkpoints, name)))
        for story in (pause_and_stop, fail, reuse):
            story(sweep)
        expected = [*recorder.snapshots]
        train_with_a_full_disk(sweep)
    assert acted == {"tell", "remove_atomically", "remove_states"}
    records = read_records(tmp_path / "events.jsonl")
    lengths = [*range(before + 1, before + 1 + len(expected)), len(records)]
    assert len(expected) > 30
    for length, found in zip(lengths, [*expected, snapshot(sweep)], strict=True):
        folder = tmp_path / f"prefix-{length}"
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(record.to_line() for record in records[:length]))
        assert snapshot(opened(folder)) == found, f"after {records[length - 1].event}"
