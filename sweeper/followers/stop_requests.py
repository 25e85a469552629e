"""Stop requests to a running sweep: small files in its folder, each for one process and obeyed once.

A request names its process (``run`` of status.json), which removes the file before it obeys. The next process of the
sweep, a ``resume``, removes requests that a previous process has not taken.
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
    """A request to the process ``run`` to stop a trial or, without ``trial_id``, the whole sweep."""

    run: str
    trial_id: str | None = None


def ask(out: Path, request: Request) -> None:
    """Write a request to the folder of a sweep. Raises OSError if the disk refuses."""
    write_whole(out / _FOLDER / f"{uuid.uuid4().hex}.json", json.dumps(asdict(request)))


def take(out: Path, run: str) -> list[Request]:
    """Remove all requests, and return those to ``run``, in any order. Unreadable files are removed, too."""
    found = []
    for path in (out / _FOLDER).glob("*.json"):
        request = None
        with contextlib.suppress(OSError, ValueError, TypeError):
            request = Request(**json.loads(path.read_text(encoding="utf-8")))
        try:
            path.unlink()
        except OSError:
            continue  # a request that cannot be removed would be obeyed again
        if request is not None and request.run == run:
            found.append(request)
    with contextlib.suppress(OSError):  # missing, or not empty: another request has just arrived
        (out / _FOLDER).rmdir()
    return found
