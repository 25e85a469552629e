"""Keeping files with a run: linked, not copied, where the artifacts of the run lie on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from search_spaces.durable import link_or_copy, staged


def keep_artifact(client: Any, run_id: str, source: Path, *, under: str) -> None:
    """Log a file or folder to a run, in the folder ``under`` of its artifacts ("" for the top).

    With artifacts in a local folder the files of a folder are hard-linked there, so that a checkpoint of gigabytes
    costs neither time nor space; where links are impossible (another file system) they are copied. A single file is
    always copied: tables and figures are written again by the next resume, and the artifact must not change with them.

    Raises FileNotFoundError when ``source`` is gone, OSError when the disk refuses, and what MLflow raises.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source} no longer exists")
    folder = local_folder(client.get_run(run_id).info.artifact_uri)
    if folder is not None:
        if source.is_dir():
            shutil.copytree(source, folder / under, copy_function=link, dirs_exist_ok=True)
        else:
            with staged(folder / under / source.name) as staging:
                shutil.copy2(source, staging)
    elif source.is_dir():
        client.log_artifacts(run_id, str(source), under or None)
    else:
        client.log_artifact(run_id, str(source), under or None)


def local_folder(artifact_uri: str) -> Path | None:
    """The folder of a ``file:`` URI or plain path; None when the artifacts are elsewhere."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(artifact_uri) if parts.scheme == "" else None


def link(source: str, target: str) -> None:
    """Put the file ``source`` at ``target``, too: linked where that can be, copied where not."""
    path = Path(target)
    if not (path.exists() and path.samefile(source)):
        with staged(path) as staging:
            link_or_copy(source, staging)
