"""The event log: what is written is read back, what is torn is cut, and replay gives the state of the live sweep."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.driver.open_sweep import OpenSweep
from sweeper.store.event_log import EventLog, EventLogError, read_events
from sweeper.store.events import Event, Kind
from sweeper.store.import_tables import events_of_tables, read_state
from sweeper.store.state import Phase, SweepState
from tests.sweeper.conftest import OUTCOME, bare_sweep, report, run_trial, running


@dataclass
class Seen:
    """A follower that remembers the events it was notified of, and whether they were on disk then."""

    needs_disk: bool
    path: Path
    events: list[Event] = field(default_factory=list)
    durable: list[bool] = field(default_factory=list)
    flushes: int = 0
    fails: type[Exception] | None = None

    def apply(self, event: Event, state: SweepState) -> None:
        self.events.append(event)
        self.durable.append(event in read_events(self.path))
        if self.fails:
            raise self.fails("broken")

    def flush(self, state: SweepState) -> None:
        self.flushes += 1
        if self.fails:
            raise self.fails("broken")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def propose(log: EventLog, trial_id: str) -> None:
    log.record(Kind.TRIAL_PROPOSED, trial_id, {"settings": {"spec_hash": "h", "method": "gd", "lr": 0.1}})


def state_of(events: list[Event]) -> SweepState:
    state = SweepState()
    for event in events:
        state.apply(event)
    return state


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4))
def test_an_event_is_read_back_as_it_is(payload: dict[str, Any]) -> None:
    event = Event.new(3, Kind.TRIAL_REPORTED, "00007", payload)
    line = event.to_line()
    assert line.count(b"\n") == 1
    assert Event.from_line(line) == event
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_nan_is_missing_and_an_infinity_stays_one() -> None:
    report = Event.new(0, Kind.TRIAL_REPORTED, "0", {"report": {"a": math.nan, "b": -math.inf}}).payload["report"]
    assert report["a"] is None
    assert float(report["b"]) == -math.inf


def test_a_torn_last_line_is_cut_and_the_log_continues(path: Path) -> None:
    propose(EventLog(path), "00000")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq": 1, "ti')
    log = EventLog(path)
    assert path.read_bytes() == whole
    log.record(Kind.TRIAL_STARTED, "00000")
    assert [event.seq for event in read_events(path)] == [0, 1]


@pytest.mark.parametrize("line", [b"{}", b"not json", b'{"seq": 9, "time": 1, "kind": "paused"}'])
def test_a_damaged_line_is_named(path: Path, line: bytes) -> None:
    propose(EventLog(path), "00000")
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(EventLogError, match=r"events\.jsonl, line 2"):
        EventLog(path)


def test_a_follower_that_needs_the_disk_sees_only_events_that_are_on_it(path: Path) -> None:
    log = EventLog(path)
    durable, immediate = Seen(needs_disk=True, path=path), Seen(needs_disk=False, path=path)
    log.attach(durable, immediate)
    propose(log, "00000")
    log.record(Kind.TRIAL_STARTED, "00000")
    assert durable.durable == [True, True]
    assert immediate.durable == [False, False]
    assert durable.flushes == 2


def test_with_a_full_disk_events_wait_and_only_the_display_sees_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(path)
    durable, immediate = Seen(needs_disk=True, path=path), Seen(needs_disk=False, path=path)
    log.attach(durable, immediate)
    propose(log, "00000")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        log.record(Kind.TRIAL_ENDED, "00000", {"outcome": {"status": "finished"}})
        assert not log.flush()
    assert (len(durable.events), len(immediate.events), log.unwritten) == (1, 2, 1)
    assert len(read_events(path)) == 1
    assert log.state.trials["00000"].phase is Phase.ENDED
    assert log.flush()
    assert (len(durable.events), log.unwritten) == (2, 0)
    assert read_events(path) == log.events


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_a_follower_that_fails_costs_neither_the_log_nor_the_others(path: Path, error: type[Exception]) -> None:
    log = EventLog(path)
    broken, healthy = Seen(needs_disk=True, path=path, fails=error), Seen(needs_disk=True, path=path)
    log.attach(broken, healthy)
    propose(log, "00000")
    assert len(healthy.events) == len(log.events) == 1
    broken.fails = None
    assert log.flush()


def test_reports_after_the_saved_state_are_void_when_a_trial_runs_again(path: Path) -> None:
    log = EventLog(path)
    propose(log, "00000")
    for step in (1, 2, 3):
        log.record(Kind.TRIAL_REPORTED, "00000", {"report": {"step": step, "epoch": float(step)}})
    log.record(Kind.TRIAL_REPORTED, "00000", {"report": {"step": 2, "epoch": 2.0, "again": True}})
    trial = log.state.trials["00000"]
    assert [item["step"] for item in trial.reports] == [1, 2, 3], "a restarted worker repeats reports"
    log.record(Kind.TRIAL_ENDED, "00000", {"outcome": {"status": "failed", "error": "the node was lost"}})
    assert not trial.has_result
    log.record(Kind.TRIAL_REQUEUED, "00000", {"step": 1})
    assert (trial.last_step, trial.phase, trial.outcome) == (1, Phase.PROPOSED, {})
    assert not log.state.ended


def drive(sweep: OpenSweep) -> None:
    """A finished, a diverged, a stopped and an unfinished trial, a pause, a requeue, and metrics measured later."""
    run_trial(sweep)
    trial_id = run_trial(sweep, steps=3, outcome={"status": "diverged", "error": "NaN", "steps": 3})
    sweep.log.record(Kind.METRICS_MEASURED, trial_id, {"step": 2, "metrics": {"verbmem": 0.5}})
    trial_id = running(sweep)
    report(sweep, trial_id, 1)
    sweep.log.record(Kind.TRIAL_PAUSED, trial_id)
    sweep.controller.request_stop(trial_id)
    sweep.controller.end_stopped(trial_id)


def test_after_every_prefix_replay_gives_the_state_and_the_tables_of_the_live_sweep(out: Path, tmp_path: Path) -> None:
    sweep = bare_sweep(out)
    drive(sweep)
    sweep.followers.tables.rewrite(sweep.log.state)
    events = read_events(out / "events.jsonl")
    assert state_of(events) == sweep.log.state
    for length in range(len(events) + 1):
        folder = tmp_path / f"prefix-{length}"
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(event.to_line() for event in events[:length]))
        resumed = bare_sweep(folder)
        assert resumed.log.state == state_of(events[:length])
        traces = [item.controller.study.archive.trace for item in (resumed, sweep)]
        assert traces[0] == traces[1][: len(traces[0])]
    for name in ("trials.csv", "history.csv"):
        assert (folder / name).read_bytes() == (out / name).read_bytes()


def test_the_tables_of_a_sweep_without_a_log_become_its_events(out: Path) -> None:
    sweep = bare_sweep(out)
    drive(sweep)
    sweep.followers.tables.rewrite(sweep.log.state)
    before = {name: (out / name).read_bytes() for name in ("trials.csv", "history.csv")}
    (out / "events.jsonl").unlink()
    assert [event.seq for event in events_of_tables(out)] == list(range(len(events_of_tables(out))))
    state = read_state(out)
    assert {trial.id: trial.outcome["status"] for trial in state.ended_trials} == {
        trial.id: trial.outcome["status"] for trial in sweep.log.state.ended_trials
    }
    path = out / "events.jsonl"
    path.write_bytes(b"".join(event.to_line() for event in events_of_tables(out)))
    bare_sweep(out)
    assert {name: (out / name).read_bytes() for name in before} == before


def test_every_table_can_be_deleted_and_is_rebuilt_equal(out: Path) -> None:
    sweep = bare_sweep(out)
    drive(sweep)
    sweep.followers.tables.rewrite(sweep.log.state)
    tables = [path for path in out.glob("*.csv") if path.is_file()]
    before = {path: path.read_bytes() for path in tables}
    for path in tables:
        path.unlink()
    bare_sweep(out)
    assert {path: path.read_bytes() for path in tables} == before
    assert OUTCOME["status"] in before[out / "trials.csv"].decode()
