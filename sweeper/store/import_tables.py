"""The events of a sweep that was recorded in tables only, by a version without an event log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """Return the state of the sweep in a folder, from its event log or, if it has none, from its tables.

    Raises:
        EventLogError: the event log is damaged.
    """
    state = SweepState()
    events = read_events(out / FILE) if (out / FILE).is_file() else events_of_tables(out)
    for event in events:
        state.apply(event)
    return state


def events_of_tables(out: Path) -> Iterator[Event]:
    """Yield the events that the tables in a folder record, trial by trial in the order in which the trials ended.

    A trial without a row of trials.csv has not ended. Its settings are empty: the study knows them.
    """
    tables = ResultTables(out)
    reports, updates, candidates = (
        rows_by_trial(log.read()) for log in (tables.history, tables.auto_lr, tables.candidates)
    )
    trials = sorted(tables.trials.read(), key=lambda row: (float(row["ended_at"] or 0.0), row["trial_id"]))
    ended = {row["trial_id"] for row in trials}
    trials += [{"trial_id": trial_id} for trial_id in reports if trial_id not in ended]
    seq = 0

    def event(kind: Kind, trial_id: str, payload: Mapping[str, Any]) -> Event:
        nonlocal seq
        seq += 1
        return Event.new(seq - 1, kind, trial_id, payload)

    for row in trials:
        trial_id = row["trial_id"]
        settings = {name: row[name] for name in ("spec_hash", *PARAMETERS) if name in row}
        yield event(Kind.TRIAL_PROPOSED, trial_id, {"settings": _values(settings)})
        if row.get("reused_from"):
            yield event(Kind.TRIAL_REUSED, trial_id, {"origin": row["reused_from"]})
        measured = {candidate["step"]: candidate for candidate in candidates.get(trial_id, ())}
        own_updates = rows_by_trial(updates.get(trial_id, ()), key="step")
        for report in reports.get(trial_id, ()):
            step = report["step"]
            values = _values(report) | {"step": int(step), "epoch": float(report["epoch"])}
            values["auto_lr"] = [_values(update) for update in own_updates.get(step, ())]
            values["evaluated"] = step in measured or _is_evaluated(report, row)
            values.pop("trial_id", None)
            yield event(Kind.TRIAL_REPORTED, trial_id, {"report": values})
            later = {name: value for name, value in _values(measured.get(step, {})).items() if name in METRICS}
            if metrics := {name: value for name, value in later.items() if name not in values}:
                yield event(Kind.METRICS_MEASURED, trial_id, {"step": int(step), "metrics": metrics})
        if trial_id not in ended:
            continue
        outcome = {name: value for name, value in row.items() if name not in ("trial_id", *settings)}
        yield event(Kind.TRIAL_ENDED, trial_id, {"outcome": _values(outcome)})


def _is_evaluated(report: Mapping[str, str], trial: Mapping[str, str]) -> bool:
    """Return whether the losses of a report were measured after its epoch, and not copied from an earlier one."""
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
    """Return the rows of a table grouped by trial, or by another column."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found
