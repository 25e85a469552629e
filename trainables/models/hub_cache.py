"""Choose the commit of a model on the hub, and download the commit.

A model that is complete in the local cache is used without a request to the hub. So the target of a resumed sweep does
not change if the hub has a newer commit. To use the newest commit, first run ``hf download ID``.
"""

from __future__ import annotations

import functools
from pathlib import Path

from trainables.models.checkpoints import folder_problems, weights_problems
from trainables.models.weights import loading

FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
"""The files to download. Code is never downloaded."""
IGNORED_FILES = ("*/*", "consolidated*")
"""Files that are not downloaded: files in subfolders, which have other formats, and copies of the weights."""


def fetch_model(hub_id: str) -> Path:
    """Download the missing files of a model. Return the model's folder, which is named after the commit.

    Raises:
        LoadError: the hub has no such model, denies access or cannot be reached, or the weights are incomplete.
    """
    from huggingface_hub import snapshot_download

    commit = hub_commit(hub_id)
    cached = cached_snapshot(hub_id)
    if cached is not None and cached.name == commit and not folder_problems(cached):
        return cached
    with loading(hub_id):
        # Download the branch, not the commit, so that the cache records main's commit for the next process.
        folder = Path(snapshot_download(hub_id, allow_patterns=list(FILES), ignore_patterns=list(IGNORED_FILES)))
        if folder.name != commit:
            raise ValueError("the repository received a newer commit during the download; try again")
        if problems := weights_problems(folder):
            raise ValueError("; ".join(problems))
    return folder


@functools.cache
def hub_commit(hub_id: str) -> str:
    """Return the commit in the local cache if all of its files are cached, otherwise the newest commit on the hub.

    Raises:
        LoadError: the hub does not answer.
    """
    from huggingface_hub import HfApi

    folder = cached_snapshot(hub_id)
    if folder is not None and not folder_problems(folder):
        return folder.name
    with loading(hub_id):
        commit = HfApi().model_info(hub_id, timeout=30).sha
        if commit is None:
            raise ValueError("the hub reports no commit for this repository")
    return commit


def cached_snapshot(hub_id: str) -> Path | None:
    """Return the folder of the branch main in the local cache; None if the folder does not exist.

    Some of the model's files may be missing in the folder.
    """
    from huggingface_hub import constants

    repository = Path(constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"
    try:
        commit = (repository / "refs" / "main").read_text().strip()
    except OSError:
        return None
    folder = repository / "snapshots" / commit
    return folder if commit and folder.is_dir() else None
