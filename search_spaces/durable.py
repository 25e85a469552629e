"""Files that stay whole whatever happens to their writer: a kill, a full disk, a second process.

It stands in ``search_spaces`` because that is the only package all others may import.

What is written goes to ``.NAME.01234567`` beside its place first and is renamed when it is whole. So a reader meets the
old content or the new one, and a killed writer leaves a file whose name tells what it is: the next write of the same
name removes it after a day, and :func:`remove_leftovers` at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import math
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_ABANDONED = 86_400.0  # seconds; a folder of a large model may take hours to write
_GLANCE = 0.2  # seconds; who looks whether a folder is held holds it for less
_BLOCK = 1 << 16  # bytes read at a time in search of the last newline


@contextmanager
def staged(path: Path, *, keep_existing: bool = False) -> Iterator[Path]:
    """Where to write a file or a folder that then takes the place of ``path``; folders above it are made.

    Nothing happens to ``path`` where the block raises, or writes nothing. With ``keep_existing`` it is left as it is
    where another process was faster.

    Raises:
        OSError: the disk refuses; ``path`` is as it was before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path, older_than=_ABANDONED)
    staging = _staging(path)
    try:
        yield staging
        if keep_existing:
            _place_unless_there(staging, path)
        elif staging.is_dir() and path.is_dir():
            _swap(staging, path)
        elif staging.exists():
            staging.replace(path)
    finally:
        _remove(staging)


def write_whole(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace ``path`` by a file of this content, which with ``sync`` is on the disk when this returns.

    Raises:
        OSError: the disk refuses; ``path`` is as it was before.
    """
    with staged(path) as staging, staging.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_json(path: Path, content: object, *, indent: int | None = 2) -> None:
    """:func:`write_whole` of JSON. NaN and infinities become null, as JSON has none."""
    write_whole(path, json.dumps(_finite(content), indent=indent, allow_nan=False) + "\n")


def remove_leftovers(path: Path, *, older_than: float = -math.inf) -> None:
    """Remove what killed writers of ``path`` left, if untouched for so many seconds; without them nobody may write."""
    for found in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}"):
        with contextlib.suppress(OSError):  # its writer has just finished
            if time.time() - found.stat().st_mtime > older_than:
                _remove(found)


def remove_whole(path: Path) -> None:
    """Delete a file or a folder so that nobody meets half of it; nothing where there is none.

    It is renamed aside first: a killed caller leaves what :func:`is_leftover` tells.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = _staging(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
        _remove(aside)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """A file under another name: a hard link, or a copy on another file system and on one without links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def is_leftover(path: Path) -> bool:
    """Whether the name is one under which something is written or deleted, of nobody's where no writer lives."""
    return re.fullmatch(r"\..+\.[0-9a-f]{8}", path.name) is not None


def append(path: Path, content: bytes, *, header: bytes = b"", sync: bool = False) -> None:
    """Add whole lines to a file of one writer, all or none; an empty file gets the ``header`` first.

    A last line torn by the kill of an earlier writer is cut before. With ``sync`` it is all on the disk when this
    returns.

    Raises:
        OSError: the disk refuses or the folder is gone; the file has the whole lines it had.
    """
    # Unbuffered: a buffer that could not be written would be tried again when the file is closed.
    with path.open("ab+", buffering=0) as file:
        size = _whole_size(file.fileno())
        file.truncate(size)
        left = memoryview(content if size else header + content)
        try:
            while left:
                left = left[file.write(left) :]
            if sync:
                os.fsync(file.fileno())
        except OSError:
            # Half a line on a full disk would swallow the next one.
            file.truncate(size)
            raise


def whole_lines(content: bytes) -> bytes:
    """A growing file without the line that is being written, or was torn: only what ends in a newline counts."""
    return content[: content.rfind(b"\n") + 1]


def cut_torn_line(path: Path) -> None:
    """Shorten a file that nobody writes to its whole lines; nothing where there is none."""
    if path.is_file():
        with path.open("rb+", buffering=0) as file:
            file.truncate(_whole_size(file.fileno()))


@contextmanager
def exclusive(folder: Path, refusal: Exception) -> Iterator[None]:
    """Hold a folder by its file ``.lock``, or raise ``refusal`` where another process does.

    A killed holder lets go by itself.
    """
    lock = folder / ".lock"
    patience = time.monotonic() + _GLANCE
    while True:
        with lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > patience:
                    raise refusal from None
                time.sleep(_GLANCE / 10)
                continue
            if not _is_there(file.fileno(), lock):
                continue  # its last holder took it away between our two calls
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    lock.unlink()
            return


def is_held(folder: Path) -> bool:
    """Whether a process holds the folder by :func:`exclusive`; nothing is written."""
    try:
        with (folder / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def in_turn(lock: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a file of this name, which stays, while the block runs; call ``on_wait`` once where another process does.

    A killed holder lets go by itself. A file system that cannot lock lets everybody in.
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
    """When to save: at most ``share`` of the time goes into it, and ``pause`` seconds pass between two at least."""

    share: float
    pause: float = 0.0
    _saved_at: float = field(default_factory=lambda: time.monotonic())  # looked up late
    _cost: float = 0.0

    def is_due(self) -> bool:
        """Whether enough time has passed since the last save, or since this was made."""
        return time.monotonic() - self._saved_at >= max(self.pause, self._cost / self.share)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """The block saves: how long it takes decides when the next save is due."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._saved_at = time.monotonic()
            self._cost = self._saved_at - started


def free_bytes(folder: Path) -> int:
    """What is free where ``folder`` is, or is to be."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def _staging(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _place_unless_there(staging: Path, path: Path) -> None:
    try:
        if staging.is_dir():
            staging.rename(path)  # never over a folder that holds something
        else:
            os.link(staging, path)  # unlike a rename, never over a file
    except OSError:
        if not path.exists():  # a file system without links
            staging.replace(path)


def _swap(staging: Path, path: Path) -> None:
    aside = _staging(path)
    path.rename(aside)
    try:
        staging.rename(path)
    except OSError:
        aside.rename(path)
        raise
    _remove(aside)


def _whole_size(descriptor: int) -> int:
    """How many bytes of a file are whole lines."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _is_there(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
