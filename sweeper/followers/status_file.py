"""Read and write status.json. A running sweep reports in this file the facts that are not in its event log."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from search_spaces.durable import write_json
from sweeper.followers.progress import Remaining

STATUS_FILE = "status.json"
RUNNING, FINISHED, INTERRUPTED, FAILED = "running", "finished", "interrupted", "failed"
"""The states of a sweep. If the driver is killed, the state in the file remains ``running``."""

TARGET = "target"
"""The value of ``doing`` until the target is prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFile:
    """The content of status.json. The fields are the keys of the file.

    ``run`` identifies the driver's process. A stop request contains this id, so a later process does not execute the
    request. ``left`` is the estimate of the remaining trials, or None until the target is prepared. ``warned_at`` is
    the time of the last warning in seconds since 1970.
    """

    run: str
    state: str
    host: str
    pid: int
    doing: str = ""
    left: Remaining | None = None
    warning: str = ""
    warned_at: float | None = None
    ended_because: str = ""

    def write(self, out: Path) -> None:
        """Write status.json to the folder ``out``. If writing to the disk fails, raise OSError."""
        write_json(out / STATUS_FILE, asdict(self))

    @classmethod
    def read(cls, out: Path) -> StatusFile | None:
        """Return the content of status.json, or None if it is missing or has the format of another version."""
        try:
            content = json.loads((out / STATUS_FILE).read_text(encoding="utf-8"))
            left = content["left"]
            return cls(**content | {"left": None if left is None else Remaining(**left)})
        except (OSError, ValueError, TypeError, KeyError):
            return None
