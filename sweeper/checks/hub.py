"""Check whether models and data sets can be loaded from the local cache or from the Hugging Face hub."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.common.messages import first_line, format_size
from trainables.data import DATASETS
from trainables.modality import MODALITIES, dataset_modality
from trainables.models.checkpoints import TOKENIZER_FILES, folder_problems
from trainables.models.hub_cache import FILES, IGNORED_FILES, cached_snapshot
from trainables.models.registry import find_model
from trainables.spec import TrialSpec

TIMEOUT_SECONDS = 6.0


def hub_problems(repositories: Sequence[tuple[str, str]]) -> list[str]:
    """Return a message for each repository (kind, hub id) that cannot be loaded. A kind is ``model`` or ``dataset``."""
    timeout_reason = f"no answer within {TIMEOUT_SECONDS:g} s"
    reasons: dict[tuple[str, str], str | None] = dict.fromkeys(repositories, timeout_reason)

    def ask(kind: str, name: str) -> None:
        reasons[kind, name] = _load_problem(kind, name)

    # Use daemon threads: Python joins executor threads at exit, and would hang if the network does not respond.
    threads = [threading.Thread(target=ask, args=repository, daemon=True) for repository in repositories]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [_format_problem(*repository, reason) for repository, reason in list(reasons.items()) if reason is not None]


def _format_problem(kind: str, name: str, reason: str) -> str:
    if kind == "model":
        offline = f"--model {dataset_modality(find_model(name).dataset).offline_model}"
        copy, remedy = f"{name} --local-dir DIR", "give a local copy with --model-path DIR"
    else:
        modality = next(MODALITIES[item.modality] for item in DATASETS.values() if item.hub_id == name)
        offline = f"--dataset {modality.offline_dataset} with --model {modality.offline_model}"
        copy, remedy = f"{name} --repo-type dataset --local-dir DIR", "give its files with --data-dir DIR"
    return (
        f"cannot get the {kind} {name} from the hub: {reason}; {remedy} ('hf download {copy}' on a machine that "
        f"reaches the hub), or use {offline}, which needs no network"
    )


def _load_problem(kind: str, name: str) -> str | None:
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url

    cache_note = ""
    if kind == "dataset" and is_dataset_cached(name):
        return None
    if kind == "model" and (folder := cached_snapshot(name)) is not None:
        problems = folder_problems(folder)
        if not problems:
            return None
        truncations = [problem for problem in problems if "is truncated" in problem]
        if truncations:
            # The hub's client accepts any file with the right name, so it would not download a damaged file again.
            remedy = f"delete {folder} and the files that its symbolic links point to, then try again"
            return f"its files in the local cache are damaged ({truncations[0]}); {remedy}"
        cache_note = f"the local cache has only a part of the repository ({problems[0]}), and "
    api = HfApi()
    timeout = TIMEOUT_SECONDS - 1
    try:
        listing: Any = api.repo_info(name, repo_type=kind, timeout=timeout)
        if kind == "dataset":
            return None
        # The file list of a gated model is public; only access to its files shows whether the user has permission.
        config = hf_hub_url(name, "config.json", endpoint=api.endpoint)
        get_hf_file_metadata(config, timeout=timeout, endpoint=api.endpoint)
    except Exception as error:
        return cache_note + _format_error(error)
    files = [sibling.rfilename for sibling in listing.siblings or []]
    if not any(file.endswith(".safetensors") and "/" not in file for file in files):
        return "the repository has no *.safetensors weights"
    has_tokenizer = any(file in TOKENIZER_FILES for file in files)
    return None if has_tokenizer else "the repository has no tokenizer"


def _format_error(error: Exception) -> str:
    from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return "access is restricted; accept the terms on the hub and log in with 'hf auth login'"
    if isinstance(error, RepositoryNotFoundError):
        return "the repository does not exist on the hub, or is private"
    if isinstance(error, EntryNotFoundError):
        return "the repository has no config.json, so transformers cannot load the model"
    response = error.response if isinstance(error, HfHubHTTPError) else None
    outcome = "the hub cannot be reached" if response is None else f"the hub answered {response.status_code}"
    return f"{outcome} ({first_line(error)[:120]})"


@dataclass(frozen=True, slots=True)
class Download:
    """A hub repository that must be downloaded. ``bytes`` is None if the size of the download is unknown."""

    kind: str
    name: str
    bytes: int | None

    def format(self) -> str:
        """Return a text such as ``model microsoft/phi-1_5, 2.8 GB``."""
        size = "" if self.bytes is None else f", {format_size(self.bytes)}"
        return f"{self.kind} {self.name}{size}"


def downloads(spec: TrialSpec) -> tuple[Download, ...]:
    """Return the hub repositories that a trial needs and that are not in the hub's local cache."""
    missing = []
    hub_id = find_model(spec.model).hub_id
    if hub_id is not None and spec.model_path is None and spec.target_path is None:
        snapshot = cached_snapshot(hub_id)
        if snapshot is None or folder_problems(snapshot):
            missing.append(Download("model", hub_id, _size("model", hub_id)))
    dataset = DATASETS[spec.dataset]
    if dataset.hub_id is not None and spec.data_dir is None and not is_dataset_cached(dataset.hub_id):
        missing.append(Download("dataset", dataset.hub_id, _size("dataset", dataset.hub_id)))
    return tuple(missing)


def is_dataset_cached(name: str) -> bool:
    """Return whether a data set is in the hub's local cache. Only the data set's README is looked up."""
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(name, repo_type="dataset", local_files_only=True, allow_patterns=["README.md"])
    except Exception:  # the hub's client raises many types of errors for a missing repository
        return False
    return True


def _size(kind: str, name: str) -> int | None:
    """Return the download size of a repository in bytes, or None if the hub does not report the size."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    try:
        listing: Any = HfApi().repo_info(name, repo_type=kind, files_metadata=True, timeout=TIMEOUT_SECONDS)
        files = listing.siblings or ()
        if kind == "model":
            files = filter_repo_objects(
                files, allow_patterns=[*FILES], ignore_patterns=[*IGNORED_FILES], key=lambda item: item.rfilename
            )
        sizes = [item.size for item in files]
    except Exception:
        return None
    return sum(sizes) if sizes and None not in sizes else None
