"""Read and write status.json, which describes the driver process and contains its last warning."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from search_spaces.common.durable import write_json
from sweeper.store.progress import Remaining

STATUS_FILE = "status.json"
RUNNING, FINISHED, INTERRUPTED, FAILED = "running", "finished", "interrupted", "failed"
"""The states of a sweep. If the driver is killed, status.json still says ``running``."""

TARGET = "target"
"""The value of ``doing`` until the target is prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFile:
    """The content of status.json; the fields are the keys. ``run`` is a random id of the driver process."""

    run: str
    state: str
    host: str
    pid: int
    doing: str = ""
    left: Remaining | None = None  # None until the target is prepared
    warning: str = ""
    warned_at: float | None = None  # seconds since 1970
    ended_because: str = ""

    def write(self, out: Path) -> None:
        """Write status.json to the folder ``out``. If writing to the disk fails, raise OSError."""
        write_json(out / STATUS_FILE, asdict(self))

    @classmethod
    def read(cls, out: Path) -> StatusFile | None:
        """Return the content of status.json, or None if the file is missing or has another format."""
        try:
            content = json.loads((out / STATUS_FILE).read_text(encoding="utf-8"))
            remaining = content["left"]
            return cls(**content | {"left": None if remaining is None else Remaining(**remaining)})
        except (OSError, ValueError, TypeError, KeyError):
            return None
