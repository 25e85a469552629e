"""Read the lines that the first version of events.jsonl has, so that its sweeps can be resumed.

In that version, a line has a ``payload``, and a report or an outcome is a flat row of values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from trainables.metrics.registry import LOSS_METRICS, METRICS
from trainables.run.reports import EpochReport, Execution, Outcome, Status, Timers


def converted(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a line in the present format."""
    kind, payload = line["kind"], dict(line["payload"])
    content = {name: line[name] for name in ("seq", "time", "kind", "trial_id") if line[name] != ""}
    if kind == "trial_paused":
        payload = {"kind": "trial_cut", "waits": True}
    elif kind == "trial_reported":
        payload["report"] = _report(payload["report"])
    elif kind == "trial_ended":
        payload["outcome"] = _grouped(payload["outcome"], _names(Outcome))
    elif kind == "search_started":
        payload["priors"] = [prior | prior["result"] for prior in payload["priors"]]
    elif kind == "metrics_measured":
        payload["metrics"] = _values(payload["metrics"], payload["metrics"])
    return content | payload


def _report(row: Mapping[str, Any]) -> dict[str, Any]:
    report = _grouped(row, _names(EpochReport))
    grouped_names = {name for value in report.values() if isinstance(value, dict) for name in value}
    other_names = row.keys() - report.keys() - grouped_names - {"auto_lr", "evaluated", "stored", "seconds"}
    report |= {
        "training": _values(row, [name for name in row if name in other_names]),
        "updates": row.get("auto_lr") or (),
        "is_stored": row.get("stored", False),
    }
    if report["losses"] and not row.get("evaluated", True):
        report["status"] = Status.DIVERGED
    return report


def _grouped(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the fields in ``names``, and the groups of values that reports and outcomes share."""
    content = {
        "losses": _values(row, LOSS_METRICS),
        "metrics": _values(row, [name for name in METRICS if name not in LOSS_METRICS]),
        "timers": _values(row, _names(Timers)),
        "execution": _values(row, _names(Execution)),
    }
    return {name: value for name, value in content.items() if value or name == "losses"} | _values(row, names)


def _values(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: row[name] for name in names if row.get(name) is not None}


def _names(cls: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(cls))
