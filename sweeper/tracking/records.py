"""What is recorded about the runs of a sweep, within MLflow's limits, and its form as one line of JSON."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

SWEEP = ""
"""The ``trial`` of records that belong to the parent run."""

_NAME_LENGTH = 250
_PARAM_LENGTH = 6000
_TAG_LENGTH = 5000  # MLflow 3 takes 8,000, servers before 2.16 take 5,000
_NOT_IN_NAMES = re.compile(r"[^\w.\- /]")


@dataclass(frozen=True)
class RunStarted:
    """A run begins, or goes on after an interruption. ``at`` in milliseconds since 1970, in all records."""

    trial: str
    at: int
    name: str
    params: dict[str, str]
    tags: dict[str, str]


@dataclass(frozen=True)
class Measured:
    """Finite metrics at one step."""

    trial: str
    at: int
    step: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class ArtifactMade:
    """A file or folder to keep with the run, in its artifacts' folder ``under``; ``path`` may start at the spool."""

    trial: str
    at: int
    path: str
    under: str


@dataclass(frozen=True)
class RunEnded:
    """A run is over; ``status`` is MLflow's: FINISHED, FAILED or KILLED."""

    trial: str
    at: int
    status: str
    tags: dict[str, str]


Record = RunStarted | Measured | ArtifactMade | RunEnded

_KINDS: dict[str, type[Record]] = {
    "run": RunStarted,
    "metrics": Measured,
    "artifact": ArtifactMade,
    "end": RunEnded,
}
_NAMES = {record: kind for kind, record in _KINDS.items()}


def to_line(record: Record) -> bytes:
    """One line of JSON, newline included."""
    return json.dumps({"kind": _NAMES[type(record)], **vars(record)}).encode() + b"\n"


def from_line(line: bytes) -> Record | None:
    """The record of a line that :func:`to_line` made; None when the line is another one or damaged."""
    try:
        values = json.loads(line)
        return _KINDS[values.pop("kind")](**values)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def finite_metrics(values: Mapping[str, object]) -> dict[str, float]:
    """The metrics that are finite numbers. MLflow would keep NaN as 0 and infinity as 1.8e308 in its plots."""
    found = {}
    for name, value in values.items():
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[_fit_name(name)] = number
    return found


def fit_params(values: Mapping[str, object]) -> dict[str, str]:
    """Parameters as text, cut to MLflow's length; one that does not apply (None, or empty in a CSV) is left out."""
    return {_fit_name(name): _cut(str(value), _PARAM_LENGTH) for name, value in values.items() if _applies(value)}


def fit_tags(values: Mapping[str, object]) -> dict[str, str]:
    """Tags as text, cut to MLflow's length, without those that are None."""
    return {_fit_name(name): _cut(str(value), _TAG_LENGTH) for name, value in values.items() if value is not None}


def run_name(trial_id: str, params: Mapping[str, object]) -> str:
    """What tells runs apart at a glance: ``00007 gdiff c=0.4 lr=1e-4``, with ``auto`` when AutoLR sets the rate."""
    parts = [trial_id]
    if _applies(params.get("method")):
        parts.append(str(params["method"]))
    parts += [f"{key}={_short(params[key])}" for key in ("c", "lr") if _applies(params.get(key))]
    if params.get("auto_lr") == "on":
        parts.append("auto")
    return _cut(" ".join(parts), _NAME_LENGTH)


def _applies(value: object) -> bool:
    return value is not None and value != ""


def _short(value: object) -> str:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)
    if not math.isfinite(number) or number == 0 or 1e-2 <= abs(number) < 1e5:
        return f"{number:.3g}"
    mantissa, _, exponent = f"{number:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _fit_name(name: str) -> str:
    fitted = _NOT_IN_NAMES.sub("_", str(name))[:_NAME_LENGTH]
    if posixpath.normpath(fitted) != fitted or fitted.startswith(("/", ".")):
        # MLflow's names are paths: 'a//b', '../a' and '/a' are refused.
        fitted = fitted.replace("/", "_").strip(".") or "_"
    return fitted


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
