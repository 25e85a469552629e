"""Whether the hub, or its local cache, has what a run needs: asked once, before anything starts, in a few seconds."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence

from sweeper.checks.downloads import has_dataset
from trainables.data import DATASETS
from trainables.modality import MODALITIES, dataset_modality
from trainables.models.checkpoints import TOKENIZERS, folder_problems
from trainables.models.hub_cache import cached_snapshot
from trainables.models.registry import find_model

TIMEOUT_SECONDS = 6.0


def hub_problems(repositories: Sequence[tuple[str, str]]) -> list[str]:
    """One plain sentence per ``(kind, id)`` that is neither cached nor reachable; kind is ``model`` or ``dataset``."""
    late = f"no answer within {TIMEOUT_SECONDS:g} s"
    reasons: dict[tuple[str, str], str | None] = dict.fromkeys(repositories, late)

    def ask(kind: str, name: str) -> None:
        reasons[kind, name] = _reason(kind, name)

    # Daemon threads: an executor's would be joined at exit and keep a user waiting for a dead network.
    threads = [threading.Thread(target=ask, args=repository, daemon=True) for repository in repositories]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [_sentence(*repository, reason) for repository, reason in list(reasons.items()) if reason is not None]


def _sentence(kind: str, name: str, reason: str) -> str:
    if kind == "model":
        tiny = dataset_modality(find_model(name).dataset).offline_model
        ways = f"give a local copy with --model-path DIR, or use --model {tiny}, which needs no network"
    else:
        modality = next(MODALITIES[item.modality] for item in DATASETS.values() if item.hub_id == name)
        offline = f"--dataset {modality.offline_dataset} with --model {modality.offline_model}"
        ways = f"give its files with --data-dir DIR, or use {offline}, which needs no network"
    return f"cannot get the {kind} {name} from the hub: {reason}; {ways}"


def _reason(kind: str, name: str) -> str | None:
    """Why the repository cannot be had; None when it is cached or the hub answers for it."""
    if kind == "model":
        return _model_reason(name)
    if has_dataset(name):
        return None
    from huggingface_hub import HfApi

    try:
        HfApi().repo_info(name, repo_type=kind, timeout=TIMEOUT_SECONDS - 1)
    except Exception as error:
        return _refusal(error)
    return None


def _model_reason(name: str) -> str | None:
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url

    folder = cached_snapshot(name)
    found = folder_problems(folder) if folder is not None else []
    if folder is not None and not found:
        return None
    if cut := next((problem for problem in found if "not whole" in problem), None):
        # The hub's client takes a file that has its name for the file, so asking again would not mend it.
        return f"its files in the local cache are damaged ({cut}); delete {folder} and what it links to, and try again"
    try:
        hub = HfApi()
        listing = hub.model_info(name, timeout=TIMEOUT_SECONDS - 1)
        # Anybody may see a gated model's listing; its files say whether they may be read.
        config = hf_hub_url(name, "config.json", endpoint=hub.endpoint)
        get_hf_file_metadata(config, timeout=TIMEOUT_SECONDS - 1, endpoint=hub.endpoint)
    except Exception as error:
        partly = f"only a part of it is in the local cache ({found[0]}), and " if found else ""
        return partly + _refusal(error)
    return _listing_reason([sibling.rfilename for sibling in listing.siblings or []])


def _refusal(error: Exception) -> str:
    from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return "access to it is restricted; accept its terms on the hub and log in with 'hf auth login'"
    if isinstance(error, RepositoryNotFoundError):
        return "it does not exist there, or is private"
    if isinstance(error, EntryNotFoundError):
        return "there is no config.json in it, so it is no model that transformers loads"
    answer = error.response if isinstance(error, HfHubHTTPError) else None
    told = "the hub cannot be reached" if answer is None else f"the hub answered {answer.status_code}"
    return f"{told} ({(str(error).strip() or type(error).__name__).splitlines()[0][:120]})"


def _listing_reason(files: Sequence[str]) -> str | None:
    """What a repository with these files lacks: weights in safetensors, all of their shards, a tokenizer."""
    weights = [name for name in files if name.endswith(".safetensors") and "/" not in name]
    if not weights:
        return "there are no *.safetensors weights in it"
    for name in weights:
        if match := re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.safetensors", name):
            stem, total = match[1], int(match[2])
            shards = [f"{stem}-{number:05}-of-{total:05}.safetensors" for number in range(1, total + 1)]
            if missing := [shard for shard in shards if shard not in weights]:
                return f"{', '.join(missing[:3])} is missing ({len(missing)} of {total} weight files)"
    if not set(TOKENIZERS) & set(files):
        return "there is no tokenizer in it"
    return None
