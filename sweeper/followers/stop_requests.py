"""Requests to a running sweep: small files in its folder, each for one process and taken once.

A request names the process it is for (``run`` of status.json). That one removes it before it obeys; the next process at
the sweep, a ``resume``, removes what an earlier one has not taken.
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
    """That the process ``run`` end a trial, or without ``trial_id`` the sweep."""

    run: str
    trial_id: str | None = None


def ask(out: Path, request: Request) -> None:
    """Leave a request in the folder of a sweep; raises OSError where the disk refuses."""
    write_whole(out / _FOLDER / f"{uuid.uuid4().hex}.json", json.dumps(asdict(request)))


def take(out: Path, run: str) -> list[Request]:
    """The requests to ``run``, in no order, each only once; those to others, and what cannot be read, are removed."""
    found = []
    for path in (out / _FOLDER).glob("*.json"):
        request = None
        with contextlib.suppress(OSError, ValueError, TypeError):
            request = Request(**json.loads(path.read_text(encoding="utf-8")))
        try:
            path.unlink()
        except OSError:
            continue  # what cannot be removed would be obeyed again
        if request is not None and request.run == run:
            found.append(request)
    with contextlib.suppress(OSError):  # there is none, or another request has just come
        (out / _FOLDER).rmdir()
    return found
