"""Rebuild the events of a sweep from its tables if the event log is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search_spaces.yaml_nodes import plain_scalar
from sweeper.store.columns import PARAMETERS
from sweeper.store.event_log import FILE, read_events
from sweeper.store.events import Event, Kind
from sweeper.store.state import SweepState
from sweeper.store.tables import ResultTables
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS, METRICS
from trainables.run.reports import Status

_SETTINGS = ("spec_hash", *PARAMETERS)
_TEXTS = ("trial_id", "spec_hash", "status", "checkpoint", "error", "worker", "reused_from")


def read_state(out: Path) -> SweepState:
    """Compute the state of a sweep from its event log. If the event log is missing, use the tables.

    Raises:
        EventLogError: the event log is damaged.
    """
    state = SweepState()
    events = read_events(out / FILE) if (out / FILE).is_file() else events_of_tables(out)
    for event in events:
        state.apply(event)
    return state


def events_of_tables(out: Path) -> list[Event]:
    """Return the events that can be rebuilt from the tables in a folder, ordered by time."""
    tables = ResultTables(out)
    trials = {row["trial_id"]: row for row in tables.trials.read()}
    history = tables.history.read()
    candidates = {(row["trial_id"], row["step"]): _values(row) for row in tables.candidates.read()}
    updates: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in tables.auto_lr.read():
        updates[row["trial_id"], row["step"]].append(_values(row))
    timed_events: list[tuple[float, Kind, str, dict[str, Any]]] = []
    trial_ids = {*trials, *(row["trial_id"] for row in history)}
    for trial_id in sorted(trial_ids):
        row = trials.get(trial_id, {})
        settings = {name: row[name] for name in _SETTINGS if name in row}
        timed_events.append((0.0, Kind.TRIAL_PROPOSED, trial_id, {"settings": _values(settings)}))
        if row.get("reused_from"):
            timed_events.append((0.0, Kind.TRIAL_REUSED, trial_id, {"origin": row["reused_from"]}))
    for row in history:
        trial_id = row.pop("trial_id")
        step = int(row["step"])
        reported_at = float(row.get("reported_at") or 0.0)
        key = (trial_id, row["step"])
        report = _values(row) | {"step": step, "epoch": float(row["epoch"]), "auto_lr": updates[key]}
        report["evaluated"] = key in candidates or _is_evaluated(row, trials.get(trial_id, {}))
        timed_events.append((reported_at, Kind.TRIAL_REPORTED, trial_id, {"report": report}))
        candidate = candidates.get(key, {})
        late_metrics = {name: candidate[name] for name in METRICS if name in candidate and name not in report}
        if late_metrics:
            timed_events.append((reported_at, Kind.METRICS_MEASURED, trial_id, {"step": step, "metrics": late_metrics}))
    for trial_id, row in trials.items():
        outcome = _values({name: text for name, text in row.items() if name not in ("trial_id", *_SETTINGS)})
        ended_at = float(row.get("ended_at") or 0.0)
        timed_events.append((ended_at, Kind.TRIAL_ENDED, trial_id, {"outcome": outcome}))
    timed_events.sort(key=lambda timed_event: timed_event[0])
    return [Event.new(seq, kind, trial_id, payload) for seq, (_, kind, trial_id, payload) in enumerate(timed_events)]


def _is_evaluated(report: Mapping[str, str], trial: Mapping[str, str]) -> bool:
    """Return whether the losses in a report were measured after its epoch, not repeated from an earlier report."""
    if not any(report.get(name) for name in LOSS_METRICS):
        return False
    is_last = float(report["step"]) >= float(trial.get("steps") or "inf")
    if is_last and trial.get("status") in (Status.DIVERGED, Status.FAILED):
        return False
    has_metrics = any(report.get(name) for name in DEFAULT_SET)
    return has_metrics or is_last or float(report["epoch"]) % float(trial.get("eval_every") or 1) == 0


def _values(row: Mapping[str, str]) -> dict[str, Any]:
    return {name: text if name in _TEXTS else plain_scalar(text) for name, text in row.items() if text}
