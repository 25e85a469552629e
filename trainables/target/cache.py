"""The cache: where it is, and what its files are named by, content of models, data and recipes and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
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


def stored(path: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The JSON object in ``path``; computed, and written all at once, where there is none that can be read.

    Others may do so meanwhile.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a disk may have lost what was written: it follows from the model
        found = None
    if not isinstance(found, dict):
        write_whole(path, json.dumps(compute()))  # with NaN, which reads back as such
        found = json.loads(path.read_text(encoding="utf-8"))
    return dict(found)
