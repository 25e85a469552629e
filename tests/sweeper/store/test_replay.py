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
from sweeper.followers.progress import remaining
from sweeper.search.halving import SuccessiveHalving
from sweeper.search.reuse import ReusableTrials
from sweeper.search.stopping import Stopping
from sweeper.store.event_log import read_events
from sweeper.store.events import Event, Kind
from sweeper.store.state import SweepState
from tests.sweeper.conftest import OUTCOME, SETTINGS, bare_sweep, report, run_trial, running

COLUMNS = ("forget_loss_capped", "retain_loss")
FEW = replace(SETTINGS, space=default_space(methods={"ngdiff": {}}), trials=6)
NODE_LOST = {"status": "failed", "error": "the node was lost", "steps": 1}


def opened(out: Path) -> OpenSweep:
    """A sweep with a scheduler that pauses, an epoch budget, and reuse of its own trials."""
    halving = SuccessiveHalving(((7.0, 0.0), (0.0, 7.0)), epochs=9, grace=1, reduction=3, mode="pause")
    return bare_sweep(
        out,
        FEW,
        scheduler=halving,
        compared=COLUMNS,
        stopping=Stopping(epoch_budget=40),
        reusable=ReusableTrials(out),
    )


def epoch(sweep: OpenSweep, trial_id: str, step: int, forget: float, retain: float = 0.5) -> None:
    (sweep.out / f"checkpoints/{trial_id}-epoch-{step}").mkdir(parents=True, exist_ok=True)
    report(sweep, trial_id, step, forget_loss_capped=forget, retain_loss=retain)


def with_pauses(sweep: OpenSweep) -> None:
    """Three trials, of which the scheduler pauses one; it is promoted, another is stopped by a user."""
    first, second, third = (running(sweep) for _ in range(3))
    epoch(sweep, first, 1, 5.0)
    epoch(sweep, second, 1, 4.0)
    sweep.log.record(Kind.TRIAL_PAUSED, second)
    epoch(sweep, first, 2, 5.5)
    sweep.controller.end_trial(first, OUTCOME | {"checkpoint": None})
    epoch(sweep, third, 1, 3.0)
    sweep.controller.request_stop(third)
    sweep.controller.end_stopped(third)
    sweep.log.record(Kind.TRIAL_STARTED, second)
    epoch(sweep, second, 2, 6.0)
    sweep.controller.end_trial(second, OUTCOME | {"forget_loss_capped": 6.0, "checkpoint": None})
    sweep.log.record(Kind.METRICS_MEASURED, second, {"step": 1, "metrics": {"verbmem": 0.25}})


def with_failures(sweep: OpenSweep) -> None:
    """A trial on a lost node continues from its state; a trial diverges; a trial fails by itself."""
    lost = running(sweep)
    epoch(sweep, lost, 1, 5.0)
    epoch(sweep, lost, 2, 6.0)
    sweep.controller.end_trial(lost, NODE_LOST)
    sweep.log.record(Kind.TRIAL_REQUEUED, lost, {"step": 1})
    run_trial(sweep, outcome={"status": "diverged", "error": "NaN", "steps": 2})
    run_trial(sweep, outcome={"status": "failed", "error": "ValueError", "steps": 2})
    sweep.log.record(Kind.TRIAL_STARTED, lost)
    epoch(sweep, lost, 2, 6.0)
    sweep.controller.end_trial(lost, OUTCOME | {"checkpoint": None})


def with_reuse_and_a_full_disk(sweep: OpenSweep) -> None:
    """A trial copies the result of an identical trial; then the disk is full during two events."""
    origin = run_trial(sweep, outcome=OUTCOME | {"checkpoint": None})
    copied = running(sweep)
    sweep.log.record(Kind.TRIAL_REUSED, copied, {"origin": f"{sweep.out}/{origin}"})
    for item in sweep.log.state.trials[origin].reports:
        sweep.log.record(Kind.TRIAL_REPORTED, copied, {"report": item})
    sweep.controller.end_trial(copied, OUTCOME | {"checkpoint": None})
    last = running(sweep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        epoch(sweep, last, 1, 2.0)
        sweep.controller.end_trial(last, OUTCOME | {"checkpoint": None})
        assert sweep.log.unwritten == 1
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
        "scheduler": {trial: controller.scheduler.ended_at(trial) for trial in state.trials},
        "front": sweep.checkpoints.folders,
        "epochs": state.trained_epochs,
        "remaining": remaining(state, trials=6, epochs_left=40 - state.trained_epochs, max_concurrent=2),
        "failure": controller.failure,
        "over": controller.stopping.end(trained=state.trained_epochs, trace=controller.study.archive.trace),
    }


@dataclass
class Recorder:
    """The last follower of a live sweep. Takes a snapshot after each event."""

    sweep: OpenSweep
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    needs_disk: bool = True

    def apply(self, event: Event, state: SweepState) -> None:
        self.snapshots.append(snapshot(self.sweep))

    def flush(self, state: SweepState) -> None: ...


@pytest.mark.usefixtures("no_fsync")
@pytest.mark.parametrize("story", [with_pauses, with_failures])
def test_after_every_prefix_each_part_concludes_what_it_did_live(
    tmp_path: Path, story: Callable[[OpenSweep], None]
) -> None:
    live = opened(tmp_path)
    recorder = Recorder(live)
    live.log.attach(recorder)
    before = len(live.log.events)
    story(live)
    events = read_events(tmp_path / "events.jsonl")
    assert len(events) - before == len(recorder.snapshots) > 10
    for length, expected in enumerate(recorder.snapshots, start=before + 1):
        folder = tmp_path / f"prefix-{length}"
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(event.to_line() for event in events[:length]))
        found = snapshot(opened(folder))
        assert found == expected, f"after {events[length - 1].kind}"


@pytest.mark.parametrize("story", [with_pauses, with_failures, with_reuse_and_a_full_disk])
def test_nothing_is_told_or_deleted_before_its_event_is_on_disk_and_a_replay_ends_as_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Callable[[OpenSweep], None]
) -> None:
    sweep = opened(tmp_path)
    acted: list[str] = []

    def durable(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **kwargs: Any) -> Any:
            acted.append(name)
            assert read_events(tmp_path / "events.jsonl") == sweep.log.events
            assert not sweep.log.unwritten
            return action(*args, **kwargs)

        return checked

    study = sweep.controller.study
    monkeypatch.setattr(study, "tell", durable("tell", study.tell))
    for name in ("remove_whole", "remove_states"):
        monkeypatch.setattr(checkpoints, name, durable(name, getattr(checkpoints, name)))
    story(sweep)
    assert {"tell", "remove_states"} <= set(acted)
    monkeypatch.undo()
    replayed = tmp_path / "replayed"
    replayed.mkdir()
    (replayed / "events.jsonl").write_bytes((tmp_path / "events.jsonl").read_bytes())
    assert snapshot(opened(replayed)) == snapshot(sweep)
