"""What a run would fetch from the hub, and how much that is."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Any

from search_spaces.messages import size
from trainables.data import DATASETS
from trainables.models.checkpoints import folder_problems
from trainables.models.hub_cache import FILES, NOT_FILES, cached_snapshot
from trainables.models.registry import find_model
from trainables.spec import TrialSpec

_TIMEOUT = 6.0


@dataclass(frozen=True, slots=True)
class Download:
    """A repository of the hub that is not in its local cache; ``bytes`` is None where the hub does not say."""

    kind: str
    name: str
    bytes: int | None

    def words(self) -> str:
        """``model microsoft/phi-1_5, 2.8 GB``."""
        return f"{self.kind} {self.name}" + (f", {size(self.bytes)}" if self.bytes is not None else "")


def downloads(spec: TrialSpec) -> tuple[Download, ...]:
    """What is missing of the model and of the data."""
    found = []
    hub_id = find_model(spec.model).hub_id
    if hub_id is not None and spec.model_path is None and spec.target_path is None:
        folder = cached_snapshot(hub_id)
        if folder is None or folder_problems(folder):
            found.append(Download("model", hub_id, _size("model", hub_id)))
    dataset = DATASETS[spec.dataset]
    if dataset.hub_id is not None and spec.data_dir is None and not has_dataset(dataset.hub_id):
        found.append(Download("dataset", dataset.hub_id, _size("dataset", dataset.hub_id)))
    return tuple(found)


def has_dataset(name: str) -> bool:
    """Whether the hub's cache has the data set, as far as its README tells."""
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(name, repo_type="dataset", local_files_only=True, allow_patterns=["README.md"])
    except Exception:  # it is not there, in one of the ways the hub's client has of saying so
        return False
    return True


def _size(kind: str, name: str) -> int | None:
    """The bytes that would be fetched; None where the hub cannot be asked."""
    from huggingface_hub import HfApi

    try:
        listing: Any = HfApi().repo_info(name, repo_type=kind, files_metadata=True, timeout=_TIMEOUT)
        files = [item for item in listing.siblings or () if kind == "dataset" or _is_fetched(item.rfilename)]
        sizes = [item.size for item in files]
    except Exception:
        return None
    return sum(sizes) if sizes and None not in sizes else None


def _is_fetched(name: str) -> bool:
    def fits(patterns: tuple[str, ...]) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    return fits(FILES) and not fits(NOT_FILES)
