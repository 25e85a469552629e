"""The cache: where it is, what is in it, and what its files are named by: content of models, data and recipes alone."""

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
"""Part of every cache key: raised when the recipe's meaning or the cached files change."""


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/sweeper``, or ``~/.cache/sweeper``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweeper"


def digest(*parts: object) -> str:
    """16 hex digits naming the content of plain values, records, and data that know their own ``content_hash``."""

    def plain(value: object) -> object:
        if hasattr(value, "content_hash"):
            return value.content_hash
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        raise TypeError(f"cannot hash a {type(value).__name__}")

    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=plain).encode()).hexdigest()[:16]


def folder_digest(folder: Path) -> str:
    """A content hash of a model folder's weights, configuration and tokenizer.

    Raises:
        TargetError: there is no such folder.
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
    """The folder as one target uses it: its models, and notes on them, small JSON objects that follow from a model.

    Where it is not ``computing``, what is not there raises NotCached. ``notes`` are those that were asked for, by their
    paths in the folder.
    """

    def __init__(self, folder: Path | None = None, *, computing: bool = True) -> None:
        self.folder = folder or cache_folder()
        self.computing = computing
        self.notes: dict[str, dict[str, Any]] = {}

    def model(self, name: str) -> Path:
        """The folder of a model that is trained here."""
        folder = self.folder / "targets" / name
        if not self.computing and not is_made(folder):
            raise NotCached(f"{folder} is not made yet")
        return folder

    def note(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The note of this name; computed, and written all at once, where there is none that can be read.

        Others may do so meanwhile.
        """
        path = self.folder / f"{name}.json"
        found = _read(path)
        if found is None:
            if not self.computing:
                raise NotCached(f"{path} is not known yet")
            write_whole(path, json.dumps(compute()))  # with NaN, which reads back as such
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            used(path)
        self.notes[name] = dict(found)
        return dict(found)

    def take_over(self, notes: Mapping[str, dict[str, Any]]) -> None:
        """Write down what the cache of another machine has."""
        for name, content in notes.items():
            if _read(path := self.folder / f"{name}.json") is None:
                write_whole(path, json.dumps(content))


def used(path: Path) -> None:
    """The cache is pruned by when things were last used; what is somebody else's, on shared storage, stays as it is."""
    with contextlib.suppress(OSError):
        os.utime(path)


def is_made(folder: Path) -> bool:
    """Whether the training of this model has ended."""
    return (folder / "target.json").is_file()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a disk may have lost what was written: it follows from the model
        return None
    return found if isinstance(found, dict) else None
