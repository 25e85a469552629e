"""Whether the hub, or its local cache, has what a run needs: asked once, before anything starts, in a few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from trainables.data import IMAGE_DATASETS, NEEDS_HUB

TIMEOUT_SECONDS = 6.0


def hub_problems(repositories: Sequence[tuple[str, str]]) -> list[str]:
    """One plain sentence per ``(kind, id)`` that is neither cached nor reachable; kind is ``model`` or ``dataset``."""
    reasons: dict[tuple[str, str], str | None] = {}

    def ask(kind: str, name: str) -> None:
        reasons[kind, name] = _reason(kind, name)

    # Daemon threads: an executor's would be joined at exit and keep a user waiting for a dead network.
    threads = [threading.Thread(target=ask, args=repository, daemon=True) for repository in repositories]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = f"no answer within {TIMEOUT_SECONDS:g} s"
    found = [(kind, name, reasons.get((kind, name), late)) for kind, name in repositories]
    return [_sentence(kind, name, reason) for kind, name, reason in found if reason is not None]


def _sentence(kind: str, name: str, reason: str) -> str:
    images = kind == "dataset" and name in {NEEDS_HUB[dataset] for dataset in IMAGE_DATASETS if dataset in NEEDS_HUB}
    offline = "--dataset digits with --model tiny-resnet" if images else "--dataset authors with --model tiny-phi"
    ways = {
        "model": "give a local copy with --model-path DIR, or use --model tiny-phi, which needs no network",
        "dataset": f"give its files with --data-dir DIR, or use {offline}, which needs no network",
    }
    return f"cannot get the {kind} {name} from the hub: {reason}; {ways[kind]}"


def _reason(kind: str, name: str) -> str | None:
    """Why the repository cannot be had; None when it is cached or the hub answers for it."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        snapshot_download(name, repo_type=kind, local_files_only=True, allow_patterns=["config.json", "README.md"])
        return None
    except (LocalEntryNotFoundError, OSError, ValueError):
        pass
    try:
        HfApi().repo_info(name, repo_type=kind, timeout=TIMEOUT_SECONDS - 1)
        return None
    except GatedRepoError:
        return "access to it is restricted; accept its terms on the hub and log in with 'hf auth login'"
    except RepositoryNotFoundError:
        return "it does not exist there, or is private"
    except Exception as error:
        text = str(error).strip().splitlines()
        return f"the hub cannot be reached ({text[0][:120] if text else type(error).__name__})"
