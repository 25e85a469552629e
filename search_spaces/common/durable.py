"""Write files atomically, append to logs, and lock folders. All packages may import this module.

Content is written to the temporary file ``.NAME.01234567``, which is then renamed to NAME. So readers see either the
old content or the new content. A killed writer leaves its temporary file. A later write of NAME removes temporary files
that are more than a day old.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from search_spaces.common.values import json_text

_LEFTOVER_SECONDS = 86_400.0  # seconds; writing a large model may take hours
LOCK = ".lock"
"""The name of the file with which :func:`exclusive` locks a folder. The file stays in the folder."""
_MAX_CHECK_SECONDS = 0.2  # seconds; :func:`is_locked` holds the lock for a shorter time than this
_BLOCK = 1 << 16  # bytes read at a time to find the last newline


@contextmanager
def staged(path: Path, *, keep_existing: bool = False) -> Iterator[Path]:
    """Yield a temporary path, which replaces ``path`` at the end of the block.

    The block may write a file or a folder. Missing parent folders are created. If the block raises or writes nothing,
    ``path`` does not change. With ``keep_existing``, ``path`` is not replaced if it exists at the end of the block.

    Raises:
        OSError: the disk cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path, older_than=_LEFTOVER_SECONDS)
    staging = _temporary_path(path)
    try:
        yield staging
        if keep_existing:
            _place_unless_exists(staging, path)
        elif staging.is_dir() and path.is_dir():
            _swap(staging, path)
        elif staging.exists():
            staging.replace(path)
    finally:
        _remove(staging)


def write_atomically(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Write a file atomically. With ``sync``, the content is on the disk when the call returns.

    Raises:
        OSError: the disk cannot be written. The old file is kept.
    """
    with staged(path) as staging, staging.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_json(path: Path, content: object, *, indent: int | None = 2) -> None:
    """Write a JSON file atomically. NaN and infinities become null."""
    write_atomically(path, json_text(content, indent=indent) + "\n")


def remove_leftovers(path: Path, *, older_than: float = -math.inf) -> None:
    """Remove the temporary files that killed writers of ``path`` left more than ``older_than`` seconds ago.

    By default, all temporary files of ``path`` are removed, so no writer may be active.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}"):
        with contextlib.suppress(OSError):  # the file's writer may just have renamed it
            if time.time() - leftover.stat().st_mtime > older_than:
                _remove(leftover)


def remove_atomically(path: Path) -> None:
    """Delete a file or a folder atomically, if it exists.

    Raises:
        OSError: the path cannot be renamed.
    """
    temporary = _temporary_path(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(temporary)  # a kill after this line leaves a temporary file
        _remove(temporary)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Create ``target`` as a hard link to ``source``; if linking fails, as a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def append(path: Path, content: bytes, *, header: bytes = b"", sync: bool = False) -> None:
    """Append whole lines to a file that has no other writer. With ``sync``, wait until the lines are on the disk.

    An incomplete last line, left by a killed writer, is removed first. An empty file first gets the ``header``.

    Raises:
        OSError: the disk cannot be written or the folder is missing. The file keeps its previous lines.
    """
    # Unbuffered, because Python would write a failed buffer again when it closes the file.
    with path.open("ab+", buffering=0) as file:
        size = _complete_size(file.fileno())
        file.truncate(size)
        remaining = memoryview(content if size else header + content)
        try:
            while remaining:
                byte_count = file.write(remaining)
                remaining = remaining[byte_count:]
            if sync:
                os.fsync(file.fileno())
        except OSError:
            # Otherwise, the next line would be appended to an incomplete line.
            file.truncate(size)
            raise


def complete_lines(content: bytes) -> bytes:
    """Return the content of a growing file up to its last newline."""
    return content[: content.rfind(b"\n") + 1]


@contextmanager
def exclusive(folder: Path, error: Exception) -> Iterator[None]:
    """Lock a folder with its file ``.lock`` while the block runs. If another process holds the lock, raise ``error``.

    The operating system releases the lock of a killed process. The lock file is not deleted, because another process
    may have already opened the file to lock it.
    """
    deadline = time.monotonic() + _MAX_CHECK_SECONDS
    with (folder / LOCK).open("a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise error from None
                time.sleep(_MAX_CHECK_SECONDS / 10)
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock of :func:`exclusive` on a folder."""
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def wait_for_lock(lock: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``lock`` while the block runs. Before waiting for another process, call ``on_wait``.

    The operating system releases the lock of a killed process. The lock file is not deleted. On a file system without
    locks, the block runs without a lock.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass
        yield


@dataclass(slots=True)
class Throttle:
    """Limits the fraction of time spent on saves to ``share``. Saves are at least ``pause`` seconds apart."""

    share: float
    pause: float = 0.0
    _saved_at: float = field(default_factory=lambda: time.monotonic())  # a lambda, so that tests can replace the clock
    _cost: float = 0.0

    def is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= max(self.pause, self._cost / self.share)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Measure the duration of a save, which the block performs."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._saved_at = time.monotonic()
            self._cost = self._saved_at - started


def free_bytes(folder: Path) -> int:
    """Return the number of free bytes on the disk of a folder. The folder need not exist."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _place_unless_exists(staging: Path, path: Path) -> None:
    try:
        if staging.is_dir():
            staging.rename(path)  # never replaces a folder that is not empty
        else:
            os.link(staging, path)  # unlike a rename, never replaces a file
    except OSError:
        if not path.exists():  # the file system does not support hard links
            staging.replace(path)


def _swap(staging: Path, path: Path) -> None:
    backup = _temporary_path(path)
    path.rename(backup)
    try:
        staging.rename(path)
    except OSError:
        backup.rename(path)
        raise
    _remove(backup)


def _complete_size(descriptor: int) -> int:
    """Return the size of a file up to its last newline."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
