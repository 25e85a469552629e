"""Models from the hub: which commit to use, and its files on this machine.

A model that is complete in the hub's local cache is used without asking the hub, so that a sweep resumed later has the
same target. ``hf download ID`` fetches the newest commit.
"""

from __future__ import annotations

import functools
from pathlib import Path

from trainables.models.checkpoints import folder_problems, loading, weights_problems

FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
"""The files of a model folder; weights in other formats and code are never downloaded."""
NOT_FILES = ("*/*", "consolidated*")
"""Subfolders hold other formats; ``consolidated`` repeats the weights under other names."""


def fetch_model(hub_id: str) -> Path:
    """Return the folder of the model's files in the hub's cache, named after their commit; download missing files.

    Raises:
        LoadError: the hub has no such model, denies access or cannot be reached, or the weights are incomplete.
    """
    from huggingface_hub import snapshot_download

    commit = hub_commit(hub_id)
    cached = cached_snapshot(hub_id)
    if cached is not None and cached.name == commit and not folder_problems(cached):
        return cached
    with loading(hub_id):
        # By branch, not by commit: only then does the cache record the commit of main, which the next process reads.
        folder = Path(snapshot_download(hub_id, allow_patterns=list(FILES), ignore_patterns=list(NOT_FILES)))
        if folder.name != commit:
            raise ValueError("the hub got a newer commit just now; try again")
        if problems := weights_problems(folder):
            raise ValueError("; ".join(problems))
    return folder


def hub_commit(hub_id: str) -> str:
    """Return the commit that :func:`fetch_model` uses: the cached one if complete, otherwise the newest; cached per
    process.

    Raises:
        LoadError: the hub does not answer.
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
    """Return the folder of the model's main commit in the hub's cache, complete or not; None if it is not cached."""
    from huggingface_hub import constants

    repository = Path(constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"
    try:
        commit = (repository / "refs" / "main").read_text().strip()
    except OSError:
        return None
    folder = repository / "snapshots" / commit
    return folder if commit and folder.is_dir() else None
