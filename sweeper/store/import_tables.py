"""Rebuild the events of a sweep from its tables if an old version of this project wrote no event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

_TEXTS = ("trial_id", "spec_hash", "status", "checkpoint", "error", "worker", "reused_from")


def read_state(out: Path) -> SweepState:
    """Return the state of the sweep in a folder, computed from its event log or, if it has none, from its tables.

    Raises:
        EventLogError: the event log is damaged.
    """
    state = SweepState()
    events = read_events(out / FILE) if (out / FILE).is_file() else events_of_tables(out)
    for event in events:
        state.apply(event)
    return state


def events_of_tables(out: Path) -> list[Event]:
    """Return the events that the tables in a folder record, in the order in which they happened.

    A trial without a row in trials.csv has not ended. Its settings are left empty, because the study stores them.
    """
    tables = ResultTables(out)
    logs = (tables.history, tables.auto_lr, tables.candidates)
    reports, updates, candidates = (rows_by_trial(log.read()) for log in logs)
    trials: dict[str, Mapping[str, str]] = {row["trial_id"]: row for row in tables.trials.read()}
    found: list[tuple[float, Kind, str, dict[str, Any]]] = []
    for trial_id in sorted({*trials, *reports}):
        row = trials.get(trial_id, {})
        settings = {name: row[name] for name in ("spec_hash", *PARAMETERS) if name in row}
        found.append((0.0, Kind.TRIAL_PROPOSED, trial_id, {"settings": _values(settings)}))
        if row.get("reused_from"):
            found.append((0.0, Kind.TRIAL_REUSED, trial_id, {"origin": row["reused_from"]}))
        measured = {candidate["step"]: candidate for candidate in candidates.get(trial_id, ())}
        own_updates = rows_by_trial(updates.get(trial_id, ()), key="step")
        for report in reports.get(trial_id, ()):
            step, at = report["step"], float(report.get("reported_at") or 0.0)
            values = _values(report) | {"step": int(step), "epoch": float(report["epoch"])}
            values["auto_lr"] = [_values(update) for update in own_updates.get(step, ())]
            values["evaluated"] = step in measured or _is_evaluated(report, row)
            values.pop("trial_id", None)
            found.append((at, Kind.TRIAL_REPORTED, trial_id, {"report": values}))
            later = {name: value for name, value in _values(measured.get(step, {})).items() if name in METRICS}
            if metrics := {name: value for name, value in later.items() if name not in values}:
                found.append((at, Kind.METRICS_MEASURED, trial_id, {"step": int(step), "metrics": metrics}))
        if row:
            outcome = {name: value for name, value in row.items() if name not in ("trial_id", *settings)}
            at = float(row["ended_at"] or 0.0)
            found.append((at, Kind.TRIAL_ENDED, trial_id, {"outcome": _values(outcome)}))
    found.sort(key=lambda item: item[0])
    return [Event.new(seq, kind, trial_id, payload) for seq, (_, kind, trial_id, payload) in enumerate(found)]


def _is_evaluated(report: Mapping[str, str], trial: Mapping[str, str]) -> bool:
    """Return whether the losses of a report were measured after its epoch, not copied from an earlier report."""
    if not any(report.get(name) for name in LOSS_METRICS):
        return False
    is_last = float(report["step"]) >= float(trial.get("steps") or "inf")
    if is_last and trial.get("status") in (Status.DIVERGED, Status.FAILED):
        return False
    measured = any(report.get(name) for name in DEFAULT_SET)
    return measured or is_last or float(report["epoch"]) % float(trial.get("eval_every") or 1) == 0


def _values(row: Mapping[str, str]) -> dict[str, Any]:
    return {name: text if name in _TEXTS else plain_scalar(text) for name, text in row.items() if text}


def rows_by_trial(rows: Sequence[Mapping[str, str]], key: str = "trial_id") -> dict[str, list[Mapping[str, str]]]:
    """Return the rows of a table grouped by the trial id, or by another column ``key``."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found
