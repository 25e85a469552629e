"""Send stop requests to a running sweep, and receive them. Each request is a small file in the sweep's folder.

A request contains the id of the driver process that should execute it (``run`` in status.json). The driver first
deletes the file and then executes the request, so each request is executed at most once. When a sweep resumes, the new
driver process deletes requests to the previous process.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from pathlib import Path

from search_spaces.common.durable import write_atomically

_NAME = ".stop-{}.json"


def request_stop(out: Path, run: str, trial_id: str | None = None) -> None:
    """Ask the driver process ``run`` to stop one trial or, if ``trial_id`` is None, the whole sweep.

    Raises:
        OSError: writing to the disk failed.
    """
    write_atomically(out / _NAME.format(uuid.uuid4().hex), json.dumps({"run": run, "trial_id": trial_id}))


def take_requests(out: Path, run: str) -> list[str | None]:
    """Delete all request files. Return the ids of the trials that ``run`` should stop; None means the whole sweep."""
    trial_ids: list[str | None] = []
    for path in out.glob(_NAME.format("*")):
        request = {}
        with contextlib.suppress(OSError, ValueError):
            request = json.loads(path.read_text(encoding="utf-8"))
        try:
            path.unlink()
        except OSError:
            continue  # a request that cannot be deleted would be executed again
        is_valid = isinstance(request, dict) and request.keys() == {"run", "trial_id"}
        if is_valid and request["run"] == run:
            trial_ids.append(request["trial_id"])
    return trial_ids
