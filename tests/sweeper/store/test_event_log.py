"""The event log: events are read back as written, and neither a damaged line nor a failing follower goes unnoticed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeper.store.event_log import EventLog, EventLogError, Follower
from sweeper.store.events import Event, Record, TrialProposed, TrialReported, TrialStarted
from sweeper.store.state import SweepState
from trainables.run.reports import EpochReport


@dataclass
class Seen(Follower):
    """A follower that counts its events, and may fail."""

    needs_disk: bool = True
    events: int = 0
    fails: type[Exception] | None = None

    def apply(self, event: Event, state: SweepState) -> None:
        self.events += 1
        if self.fails:
            raise self.fails("broken")

    def flush(self, state: SweepState) -> None:
        if self.fails:
            raise self.fails("broken")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def propose(log: EventLog, trial_id: str) -> None:
    log.record(TrialProposed(trial_id, {"spec_hash": "h", "method": "gd", "lr": 0.1}))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4), st.dictionaries(st.text(max_size=6), st.floats()))
def test_an_event_is_read_back_as_it_is_without_the_values_that_are_nan(
    settings: dict[str, Any], losses: dict[str, float]
) -> None:
    for event in (TrialProposed("00007", settings), TrialReported("00007", EpochReport(2, 0.5, losses=losses))):
        record = Record.new(3, event)
        line = record.to_line()
        assert line.count(b"\n") == 1
        assert Record.from_line(line) == record
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert isinstance(record.event, TrialReported)
    assert record.event.report.losses == {name: value for name, value in losses.items() if not math.isnan(value)}


def test_a_field_that_is_missing_is_named(path: Path) -> None:
    path.write_bytes(b'{"seq": 0, "time": 1.0, "kind": "trial_cut", "trial_id": "00000"}\n')
    with pytest.raises(EventLogError, match=r"line 1 is damaged or from another version \(waits: Field required\)"):
        EventLog(path)


@pytest.mark.parametrize("line", [b"{}\n", Record.new(2, TrialStarted("00000")).to_line()], ids=["no event", "gap"])
def test_a_line_that_is_no_event_or_follows_a_missing_line_is_named(path: Path, line: bytes) -> None:
    propose(EventLog(path), "00000")
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(EventLogError, match=r"events\.jsonl, line 2"):
        EventLog(path)


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_a_follower_that_fails_costs_neither_the_log_nor_the_others(path: Path, error: type[Exception]) -> None:
    log = EventLog(path)
    broken, healthy = Seen(fails=error), Seen()
    log.attach(broken, healthy)
    propose(log, "00000")
    assert healthy.events == len(log.records) == 1
    broken.fails = None
    assert log.flush()
