"""Models from the hub: which commit is meant, and its files on this machine.

A model that lies whole in the hub's local cache is used as it is, without asking: a sweep that is resumed next month
has the same target. ``hf download ID`` brings the newest commit.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from trainables.models.checkpoints import loading

FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
"""What a model folder needs; weights in other formats and code are never fetched."""
NOT_FILES = ("*/*", "consolidated*")
"""Subfolders hold other formats; ``consolidated`` repeats the weights under their author's own names."""


def fetch_model(hub_id: str) -> Path:
    """The folder of the model's files in the hub's cache, named after their commit; fetches what is missing.

    Raises:
        LoadError: the hub has no such model, gives no access, or cannot be reached, or its weights are not whole.
    """
    from huggingface_hub import snapshot_download

    commit = hub_commit(hub_id)
    cached = cached_snapshot(hub_id)
    if cached is not None and cached.name == commit and not folder_problems(cached):
        return cached
    with loading(hub_id):
        # By branch, not by commit: only then is it noted in the cache what main is, which the next process reads.
        folder = Path(snapshot_download(hub_id, allow_patterns=list(FILES), ignore_patterns=list(NOT_FILES)))
        if folder.name != commit:
            raise ValueError("the hub got a newer commit just now; try again")
        if problems := weights_problems(folder):
            raise ValueError("; ".join(problems))
    return folder


def hub_commit(hub_id: str) -> str:
    """The commit :func:`fetch_model` takes, asked for once per process: the cached one if whole, else the newest.

    Raises:
        LoadError: the hub cannot say.
    """
    from huggingface_hub import constants

    return _commit(hub_id, constants.ENDPOINT, str(constants.HF_HUB_CACHE))


@functools.cache
def _commit(hub_id: str, endpoint: str, cache: str) -> str:
    from huggingface_hub import HfApi

    folder = cached_snapshot(hub_id)
    if folder is not None and not folder_problems(folder):
        return folder.name
    with loading(hub_id):
        commit = HfApi().model_info(hub_id, timeout=30).sha
        if commit is None:
            raise ValueError("the hub names no commit")
    return commit


def cached_snapshot(hub_id: str) -> Path | None:
    """The folder of the model's main commit in the hub's cache, whole or not; None where there is none."""
    from huggingface_hub import constants

    repository = Path(constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"
    try:
        commit = (repository / "refs" / "main").read_text().strip()
    except OSError:
        return None
    folder = repository / "snapshots" / commit
    return folder if commit and folder.is_dir() else None


def folder_problems(folder: Path, *, tokenizer: bool = True) -> list[str]:
    """What a folder lacks to be a model in safetensors, with a tokenizer unless it is not asked for."""
    found = []
    if not (folder / "config.json").is_file():
        found.append("there is no config.json in it")
    found += weights_problems(folder)
    names = ("tokenizer.json", "tokenizer.model", "vocab.json")
    if tokenizer and not any((folder / name).is_file() for name in names):
        found.append("there is no tokenizer in it")
    return found


def weights_problems(folder: Path) -> list[str]:
    """Missing, unfinished and cut safetensors files of a folder, told by the index and by each file's own header."""
    expected: set[str] = set()
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            expected = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return [f"{index.name} cannot be read"]
    missing = sorted(name for name in expected if not (folder / name).is_file())
    files = sorted(folder.glob("*.safetensors"))
    if not files and not expected:
        others = [path.name for pattern in ("*.bin", "*.pt", "*.gguf") for path in sorted(folder.glob(pattern))]
        hint = f" (found {', '.join(others[:3])}; convert it to safetensors first)" if others else ""
        return [f"there are no *.safetensors weights in it{hint}"]
    found = []
    if missing:
        found.append(f"{', '.join(missing[:3])} is missing ({len(missing)} of {len(expected)} weight files)")
    for path in files:
        size, whole = path.stat().st_size, _whole_size(path)
        if whole is None or size != whole:
            found.append(f"{path.name} is not whole: {size:,} bytes" + (f" of {whole:,}" if whole else ""))
    return found


def _whole_size(path: Path) -> int | None:
    """The length a safetensors file says it has: 8 bytes, the header they count, the last tensor's end.

    None where the header itself cannot be read.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            return None
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
    return 8 + length + max(ends, default=0)
