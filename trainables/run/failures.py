"""Why a trial failed: by itself, or because what it ran on did, which is no result and is run again by ``resume``."""

from __future__ import annotations

import re
from pathlib import Path

from search_spaces.durable import write_whole

NO_SPACE = "no space left on the disk"
NO_DISK = "the disk refuses"
NO_STORAGE = "the storage refuses or does not answer"
NO_MEMORY = "memory ran out on the node"
NODE_LOST = "the node was lost"
WORKER_DIED = "the worker died"

_SIGNS = {
    NO_SPACE: r"No space left on device|Disk quota exceeded|\b(os error|Errno) (28|122)\b|file write failed",
    NO_DISK: r"Input/output error|Read-only file system|Stale file handle|\b(os error|Errno) (5|30|116)\b",
    NO_STORAGE: r"\bStorageError\b|\bAWS Error\b|google::cloud::Status|Azure::",
    NO_MEMORY: r"running low on memory",
    NODE_LOST: r"node has died|node was terminated|node is dead|node_died|NodeDiedError",
    WORKER_DIED: r"worker process has died|actor died|ActorDiedError|ActorUnavailableError|owner has exited",
}
"""What systems, libraries and Ray write."""
_MEMORY = re.compile(r"was (\S+) used / (\S+) limit")
_EXIT = re.compile(r"Worker exit detail: (.+?)(?: Some common causes|$)", re.MULTILINE)
LOGS = "logs"
"""The folder with what is known of failed trials, in the sweep's: ID.txt of each."""
_TAIL = 1 << 16  # bytes of a worker's output


def infrastructure(text: str) -> str | None:
    """Which of the above an error is, by its words or by the first of its signs; None for one of the trial's own."""
    for cause, signs in _SIGNS.items():
        if text.startswith(cause) or re.search(signs, text):
            return cause
    return None


def is_no_result(status: object, error: object) -> bool:
    """Whether a row of trials.csv is of a trial that the infrastructure ended."""
    return status == "failed" and infrastructure(str(error or "")) is not None


def one_line(text: str) -> str:
    """An error as a table has it: the cause first, where it is the infrastructure's, then what was said of it."""
    cause = infrastructure(text)
    lines = text.strip().splitlines()
    said = lines[-1].strip() if lines else ""
    if cause is None or text.startswith(cause):
        return said[:400]
    if cause == NO_MEMORY:
        found = _MEMORY.search(text)
        said = f"{found[1]} of {found[2]} used; fewer trials at once (--max-concurrent) need less" if found else ""
    elif cause in (NODE_LOST, WORKER_DIED):
        found = _EXIT.search(text)
        said = found[1].strip() if found else said
    return f"{cause}: {said}"[:400] if said else cause


def write_log(out: Path, trial_id: str, text: str, *printed: Path) -> str:
    """Keep what is known of a failed trial, and the end of what its worker printed; returns the file relative to OUT.

    Raises:
        OSError: the disk refuses.
    """
    file = Path(LOGS) / f"{trial_id}.txt"
    parts = [text.rstrip()]
    for path in printed:
        if path.is_file() and (end := _end_of(path)):
            parts.append(f"--- the end of {path} ---\n{end}")
    write_whole(out / file, "\n\n".join(parts) + "\n")
    return str(file)


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode(errors="replace").strip()
