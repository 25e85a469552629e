"""status.json: what the process at a sweep tells other processes, beyond what is in the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from search_spaces.durable import write_json

STATUS_FILE = "status.json"
RUNNING, FINISHED, INTERRUPTED, FAILED = "running", "finished", "interrupted", "failed"
"""The states of a sweep. Whoever was killed said ``running`` last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """``run`` names the process, so that what is asked of one is never taken for asked of the next.

    ``running`` has of each trial on a worker its ``trial_id``, its ``settings`` in words, the ``epochs`` asked for and
    ``since`` when it runs; ``waiting`` those that wait at a rung, ``to_end`` those that were asked to end. What is
    ``left_...`` is an estimate. Times are seconds since 1970.
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
        """Replace the file of the sweep in ``out``; raises OSError where the disk refuses."""
        write_json(out / STATUS_FILE, asdict(self))

    @classmethod
    def read(cls, out: Path) -> Published | None:
        """What was last told; None where there is no such file, or none of this version."""
        try:
            content = json.loads((out / STATUS_FILE).read_text(encoding="utf-8"))
            for name in ("running", "waiting", "to_end"):
                content[name] = tuple(content[name])
            return cls(**content)
        except (OSError, ValueError, TypeError, KeyError):
            return None
