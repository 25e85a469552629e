"""The cache of trained models and their scores, named by the content of models, data and recipes alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from search_spaces.durable import write_whole
from trainables.target.finetune import TargetError

FORMAT = 3
"""Part of every cache key; raised when the meaning of a recipe or the cached files change."""


def cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/sweeper``, or ``~/.cache/sweeper``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweeper"


def digest(*parts: object) -> str:
    """Return 16 hex digits of the content of plain values, dataclasses, and data with a ``content_hash``."""

    def plain(value: object) -> object:
        if hasattr(value, "content_hash"):
            return value.content_hash
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        raise TypeError(f"cannot hash a {type(value).__name__}")

    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=plain).encode()).hexdigest()[:16]


def folder_digest(folder: Path) -> str:
    """Return a content hash of a model folder's weights, configuration and tokenizer.

    Raises:
        TargetError: the folder does not exist.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder; expected a model folder with config.json and safetensors")
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in {".safetensors", ".json", ".txt", ".model"}:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
    return digest.hexdigest()[:16]


class NotCached(RuntimeError):
    """Something would have to be trained or scored first."""


class Cache:
    """The cache as one target uses it: its models, and notes, which are small JSON objects computed from a model.

    If ``computing`` is False, a missing entry raises NotCached. ``notes`` holds the notes that were read, by their
    paths in the folder.
    """

    def __init__(self, folder: Path | None = None, *, computing: bool = True) -> None:
        self.folder = folder or cache_folder()
        self.computing = computing
        self.notes: dict[str, dict[str, Any]] = {}

    def model(self, name: str) -> Path:
        """Return the folder of a model that is trained here."""
        folder = self.folder / "targets" / name
        if not self.computing and not is_made(folder):
            raise NotCached(f"{folder} is not made yet")
        return folder

    def note(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the note called ``name``; compute and write it if it is missing or unreadable.

        Other processes may do the same meanwhile.
        """
        path = self.folder / f"{name}.json"
        found = _read(path)
        if found is None:
            if not self.computing:
                raise NotCached(f"{path} is not known yet")
            write_whole(path, json.dumps(compute()))  # may contain NaN, which Python reads back
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            used(path)
        self.notes[name] = dict(found)
        return dict(found)

    def take_over(self, notes: Mapping[str, dict[str, Any]]) -> None:
        """Store the notes of another machine's cache, unless this cache has them."""
        for name, content in notes.items():
            if _read(path := self.folder / f"{name}.json") is None:
                write_whole(path, json.dumps(content))


def used(path: Path) -> None:
    """Mark a file as used, because the cache is pruned by last use. Files of other users stay unchanged."""
    with contextlib.suppress(OSError):
        os.utime(path)


def is_made(folder: Path) -> bool:
    """Return whether the training of this model has ended."""
    return (folder / "target.json").is_file()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a damaged note can be computed again
        return None
    return found if isinstance(found, dict) else None
