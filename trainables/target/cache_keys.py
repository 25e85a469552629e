"""What the files in the cache are named by: hashes of the content of models, data and recipes, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, is_dataclass
from pathlib import Path

from trainables.models.hub_cache import hub_commit
from trainables.models.registry import find_model
from trainables.spec import TrialSpec
from trainables.target.finetune import TargetError

FORMAT = 2
"""Part of every cache key: raised when the recipe's meaning or the cached files change."""


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


def base_identity(spec: TrialSpec) -> str:
    """What the base model is, whatever it is called: its files' digest, its commit, or the name of one made here."""
    if spec.model_path is not None:
        return folder_digest(Path(spec.model_path))
    info = find_model(spec.model)
    if info.hub_id is not None:
        return f"{info.hub_id}@{hub_commit(info.hub_id)}"
    return f"{info.name}:{info.hub_id}"
