"""The kinds of events in OUT/events.jsonl, and the format of a line."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kind of an event. The description of a kind lists the keys of its payload in parentheses."""

    SWEEP_STARTED = "sweep_started"
    """A driver starts or resumes the sweep (trials: number of requested trials)."""
    SWEEP_ENDED = "sweep_ended"
    """The driver ends the sweep (status: finished or interrupted)."""
    SEARCH_STARTED = "search_started"
    """The search starts (points: Optuna parameters to try first; priors: trials of a previous sweep)."""
    TRIAL_PROPOSED = "trial_proposed"
    """The search proposed a trial (settings: values for trials.csv; search: Optuna's data about the trial)."""
    TRIAL_REUSED = "trial_reused"
    """The result of an earlier trial is copied (origin: FOLDER/ID). Events with the reports and the end follow."""
    TRIAL_REQUEUED = "trial_requeued"
    """The trial runs again (step: reports of later steps are discarded; -1 discards all reports)."""
    TRIAL_STARTED = "trial_started"
    """A worker starts or continues a trial."""
    TRIAL_REPORTED = "trial_reported"
    """An epoch ended.

    report: columns of history.csv and trials.csv by name; auto_lr: AutoLR's updates; evaluated: False if the epoch was
    not evaluated; stored: True if the worker uploaded the epoch's model.
    """
    TRIAL_PAUSED = "trial_paused"
    """The scheduler paused the trial. The trial's state is saved."""
    TRIAL_ENDED = "trial_ended"
    """The trial ended (outcome: values for trials.csv)."""
    STOP_REQUESTED = "stop_requested"
    """A user asked to stop the trial after its current epoch."""
    METRICS_MEASURED = "metrics_measured"
    """A checkpoint on the frontier was scored after the end of all trials (step; metrics: values by name)."""


@dataclass(frozen=True, slots=True)
class Event:
    """A line of events.jsonl. ``seq`` counts from 0 without gaps; ``time`` is in seconds since 1970."""

    seq: int
    time: float
    kind: Kind
    trial_id: str
    payload: Mapping[str, Any]

    @classmethod
    def new(cls, seq: int, kind: Kind, trial_id: str, payload: Mapping[str, Any]) -> Event:
        """Return an event with the current time. Its payload equals the payload that will be read from the file."""
        stored_payload = json.loads(json.dumps(_json(payload), allow_nan=False))
        return cls(seq=seq, time=time.time(), kind=kind, trial_id=trial_id, payload=stored_payload)

    def to_line(self) -> bytes:
        content = {"seq": self.seq, "time": self.time, "kind": self.kind, "trial_id": self.trial_id}
        return json.dumps(content | {"payload": self.payload}, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Event:
        """Convert a line of the file to an event.

        Raises:
            ValueError: the line is not an event of this version.
        """
        try:
            content = json.loads(line)
            return cls(**content | {"kind": Kind(content["kind"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an event: {error!r}") from None


def _json(value: object) -> object:
    """Replace NaN by None and infinity by the text ``inf``, because JSON has no NaN and no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return value
