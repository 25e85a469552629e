"""Classify the errors of failed trials. ``resume`` reruns trials after infrastructure failures, such as a full disk."""

from __future__ import annotations

import re
from pathlib import Path

from search_spaces.common.durable import write_atomically
from search_spaces.common.messages import printable

NO_SPACE = "no space left on the disk"
NO_DISK = "the disk refuses"
NO_STORAGE = "the storage refuses or does not answer"
NO_MEMORY = "memory ran out on the node"
NODE_LOST = "the node was lost"
WORKER_DIED = "the worker died"

_PATTERNS = {
    NO_SPACE: r"No space left on device|Disk quota exceeded|\b(os error|Errno) (28|122)\b|file write failed",
    NO_DISK: r"Input/output error|Read-only file system|Stale file handle|\b(os error|Errno) (5|30|116)\b",
    NO_STORAGE: r"\bStorageError\b|\bAWS Error\b|google::cloud::Status|Azure::",
    NO_MEMORY: r"running low on memory",
    NODE_LOST: r"node has died|node was terminated|node is dead|node_died|NodeDiedError",
    WORKER_DIED: r"worker process has died|actor died|ActorDiedError|ActorUnavailableError|owner has exited",
}
"""Patterns that identify each infrastructure failure in the messages of operating systems, libraries and Ray."""
_MEMORY = re.compile(r"was (\S+) used / (\S+) limit")
_EXIT = re.compile(r"Worker exit detail: (.+?)(?: Some common causes|$)", re.MULTILINE)
LOGS = "logs"
"""The subfolder of the sweep's folder with the logs of failed trials."""
_TAIL = 1 << 16  # bytes of a worker's output to keep


def infrastructure_failure(text: str) -> str | None:
    """Return the infrastructure failure that an error's text describes; None if the trial itself caused the error."""
    for cause, pattern in _PATTERNS.items():
        if text.startswith(cause) or re.search(pattern, text):
            return cause
    return None


def is_infrastructure_failure(status: object, error: object) -> bool:
    """Return whether an infrastructure failure ended a trial. ``status`` and ``error`` are columns of trials.csv."""
    return status == "failed" and infrastructure_failure(str(error or "")) is not None


def one_line(text: str) -> str:
    """Return an error as one line for a table. The name of an infrastructure failure comes first."""
    text = printable(text)
    cause = infrastructure_failure(text)
    lines = text.strip().splitlines()
    details = lines[-1].strip() if lines else ""
    if cause is None or text.startswith(cause):
        return details[:400]
    if cause == NO_MEMORY:
        match = _MEMORY.search(text)
        details = f"{match[1]} of {match[2]} used; run fewer trials at once (--max-concurrent)" if match else ""
    elif cause in (NODE_LOST, WORKER_DIED) and (match := _EXIT.search(text)):
        details = match[1].strip()
    return f"{cause}: {details}"[:400] if details else cause


def write_log(out: Path, trial_id: str, text: str, *output_files: Path) -> str:
    """Write a log with a trial's error and the end of the worker's output. Return the log's path relative to ``out``.

    ``text`` is the error with its traceback. ``output_files`` are the files with the worker's output.

    Raises:
        OSError: the disk cannot be read or written.
    """
    name = Path(LOGS) / f"{trial_id}.txt"
    sections = [text.rstrip()]
    for path in output_files:
        if path.is_file():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL))
                if output := file.read().decode(errors="replace").strip():
                    sections.append(f"--- the end of {path} ---\n{output}")
    write_atomically(out / name, "\n\n".join(sections) + "\n")
    return str(name)
