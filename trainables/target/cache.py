"""The cache of trained models and of results such as scores. The name of an entry is a hash of all its inputs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from search_spaces.common.durable import write_atomically

FORMAT = 4
"""A part of every cache key. Increase the number when the meaning of a recipe or the format of cached files changes."""

SCORING = 7
"""A part of the key of cached scores. Increase the number when a value or an entry of a model's scores changes."""

RECORD = "target.json"
"""The file that marks the folder of a completely trained model."""


class TargetError(RuntimeError):
    """Raised if the target cannot be prepared; the message is for the user."""

    exit_code = 1


def cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/sweeper``, or ``~/.cache/sweeper`` if the variable is not set."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweeper"


def digest(*parts: object) -> str:
    """Return 16 hex digits of a hash of JSON values, dataclasses and data sets."""

    def to_json(value: object) -> object:
        if hasattr(value, "content_hash"):
            return value.content_hash
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        raise TypeError(f"cannot hash a {type(value).__name__}")

    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=to_json).encode()).hexdigest()[:16]


def folder_digest(folder: Path) -> str:
    """Return a content hash of the weights, configuration and tokenizer in a model folder.

    Raises:
        TargetError: the folder does not exist.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder; expected a model folder with config.json and safetensors")
    files = []
    for path in sorted(folder.iterdir()):
        if path.suffix in {".safetensors", ".json", ".txt", ".model"} and path.is_file():
            files.append((path, path.stat().st_size, path.stat().st_ctime_ns))
    return _digest_of(tuple(files))


@functools.cache
def _digest_of(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Return a hash of the files' names and contents. Files with the same size and change time are read only once."""
    sha256 = hashlib.sha256()
    for path, _, _ in files:
        sha256.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                sha256.update(block)
    return sha256.hexdigest()[:16]


class NotCached(RuntimeError):
    """Raised if an entry is not in the cache and the cache may not compute it."""


class Cache:
    """A folder with trained models and notes. A note is a small JSON object that was computed from a model.

    Attributes:
        computing: whether a missing entry may be computed; otherwise :class:`NotCached` is raised.
        notes: every note that this object has returned, by name.
    """

    def __init__(self, folder: Path | None = None, *, computing: bool = True) -> None:
        self.folder = folder or cache_folder()
        self.computing = computing
        self.notes: dict[str, dict[str, Any]] = {}

    def model(self, name: str) -> Path:
        """Return the folder for a trained model. If ``computing`` is true, the folder may not exist yet."""
        folder = self.folder / "targets" / name
        if not self.computing and not is_trained(folder):
            raise NotCached(f"the cache has no model {folder}")
        return folder

    def note(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the note ``name``. If the note is missing or unreadable, compute the note and write it to the cache.

        There is no lock, so several processes may compute the same note at the same time.
        """
        path = self.folder / f"{name}.json"
        content = _read(path)
        if content is None:
            if not self.computing:
                raise NotCached(f"the cache has no entry {path}")
            text = json.dumps(compute())  # the JSON may contain NaN, which Python can read
            write_atomically(path, text)
            content = dict(json.loads(text))
        else:
            mark_used(path)
        self.notes[name] = dict(content)
        return dict(content)

    def add_notes(self, notes: Mapping[str, dict[str, Any]]) -> None:
        """Store notes from another machine's cache. Existing notes are kept."""
        for name, content in notes.items():
            path = self.folder / f"{name}.json"
            if _read(path) is None:
                write_atomically(path, json.dumps(content))


def mark_used(path: Path) -> None:
    """Set the modification time of a file in the cache to now. The time shows when the entry was last used."""
    with contextlib.suppress(OSError):  # the file may belong to another user
        os.utime(path)


def is_trained(folder: Path) -> bool:
    """Return whether the folder contains a completely trained model."""
    return (folder / RECORD).is_file()


def unfinished_file(folder: Path, suffix: str) -> Path:
    """Return the path of a file that is used while the model in ``folder`` is trained.

    ``suffix`` is ``.lock`` for the lock, and ``.pt`` for the state of the training. The file lies outside ``folder``.
    """
    return folder.parent.with_name("unfinished") / f"{folder.name}{suffix}"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a damaged note can be computed again
        return None
    return content if isinstance(content, dict) else None
