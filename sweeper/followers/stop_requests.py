"""Stop requests to a running sweep: small files in its folder, each addressed to one process and executed once.

A request names the process that should execute it (``run`` in status.json). That process deletes the file before it
executes the request. After ``resume``, the new process deletes requests that the previous process did not execute.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from search_spaces.durable import write_whole

_FOLDER = "requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the process ``run`` to stop one trial or, if ``trial_id`` is None, the whole sweep."""

    run: str
    trial_id: str | None = None


def ask(out: Path, request: Request) -> None:
    """Write a request to the folder of a sweep. Raise OSError if the disk cannot be written."""
    write_whole(out / _FOLDER / f"{uuid.uuid4().hex}.json", json.dumps(asdict(request)))


def take(out: Path, run: str) -> list[Request]:
    """Delete all request files and return the requests that are addressed to ``run``, in any order."""
    found = []
    for path in (out / _FOLDER).glob("*.json"):
        request = None
        with contextlib.suppress(OSError, ValueError, TypeError):
            request = Request(**json.loads(path.read_text(encoding="utf-8")))
        try:
            path.unlink()
        except OSError:
            continue  # a request that cannot be deleted would be executed again
        if request is not None and request.run == run:
            found.append(request)
    with contextlib.suppress(OSError):  # the folder is missing, or another request has just arrived
        (out / _FOLDER).rmdir()
    return found
