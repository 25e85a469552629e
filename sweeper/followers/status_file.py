"""status.json: facts that a running sweep reports to other processes and that are not in its tables or its log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from search_spaces.durable import write_json

STATUS_FILE = "status.json"
RUNNING, FINISHED, INTERRUPTED, FAILED = "running", "finished", "interrupted", "failed"
"""The states of a sweep. A killed process leaves the state ``running`` in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The content of status.json. The fields are the keys of the file.

    ``run`` identifies the process, so that a request to one process is never executed by the next. ``running`` has an
    entry for each trial on a worker: its ``trial_id``, a short text of its ``settings``, its ``epochs`` and its start
    ``since``. ``waiting`` lists the ids of paused trials, and ``to_end`` those of trials that a user asked to stop.
    ``left_trials`` and ``left_seconds`` are estimates. Times are in seconds since 1970.
    """

    run: str
    state: str
    host: str
    pid: int
    started_at: float
    doing: str = ""
    running: tuple[Mapping[str, Any], ...] = ()
    waiting: tuple[str, ...] = ()
    to_end: tuple[str, ...] = ()
    left_trials: int | None = None
    left_seconds: float | None = None
    warning: str = ""
    warned_at: float | None = None
    ended_because: str = ""

    def write(self, out: Path) -> None:
        """Write status.json to the folder ``out``. Raise OSError if the disk cannot be written."""
        write_json(out / STATUS_FILE, asdict(self))

    @classmethod
    def read(cls, out: Path) -> Published | None:
        """Return the content of status.json, or None if it is missing or has the format of another version."""
        try:
            content = json.loads((out / STATUS_FILE).read_text(encoding="utf-8"))
            for name in ("running", "waiting", "to_end"):
                content[name] = tuple(content[name])
            return cls(**content)
        except (OSError, ValueError, TypeError, KeyError):
            return None
