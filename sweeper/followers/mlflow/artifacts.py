"""Store files and folders as artifacts of an MLflow run or logged model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from search_spaces.common.durable import link_or_copy, remove_atomically, staged
from sweeper.followers.mlflow.stored import StoredModel, StoredRun

_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_UPLOAD_TIMEOUT = "600"  # seconds: a server may store gigabytes elsewhere before it answers
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the tracker retries, and first checks whether MLflow created the run
    _TIMEOUT: "15",  # seconds; with MLflow's 120 s and 7 retries, a request to a dead server takes many minutes
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout has only the command's results
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def log_artifact(client: Any, owner: StoredRun | StoredModel, source: Path, *, artifact_path: str = "") -> None:
    """Log a file or folder as an artifact of a run or model, below ``artifact_path``. Replace existing artifacts.

    If the artifacts are in a local folder, a logged folder is hard-linked if possible, so a large checkpoint takes no
    additional space. A single file is copied, because a resumed sweep may rewrite the file.

    Raises:
        FileNotFoundError: ``source`` does not exist.
        OSError: writing to the disk failed. MLflow's own errors are not caught.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source} no longer exists")
    folder = _local_folder(owner)
    if folder is not None:
        target = folder / artifact_path
        with staged(target if source.is_dir() else target / source.name) as staging:
            if source.is_dir():
                shutil.copytree(source, staging, copy_function=link_or_copy)
            else:
                shutil.copy2(source, staging)
        return
    if isinstance(owner, StoredModel):
        upload = client.log_model_artifacts if source.is_dir() else client.log_model_artifact
    else:
        upload = client.log_artifacts if source.is_dir() else client.log_artifact
    with _upload_timeout():
        upload(owner.id, str(source), artifact_path or None)


def remove_artifacts(model: StoredModel) -> None:
    """Remove the files of a model if they are in a local folder. Otherwise, ``mlflow gc`` removes the files."""
    folder = _local_folder(model)
    if folder is not None:
        remove_atomically(folder)


def prepare_environment() -> None:
    """Set MLflow's environment variables, such as the request timeout, unless the user has set them.

    Must not be called in a background thread, because adding environment variables is not thread-safe.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _local_folder(owner: StoredRun | StoredModel) -> Path | None:
    location = urlsplit(owner.location)
    return Path(unquote(location.path)) if location.scheme in ("", "file") else None


@contextmanager
def _upload_timeout() -> Iterator[None]:
    # Only the value of an existing variable changes, because other threads may read the environment.
    if os.environ.get(_TIMEOUT) != _ENVIRONMENT[_TIMEOUT]:  # the user has set another value
        yield
        return
    os.environ[_TIMEOUT] = _UPLOAD_TIMEOUT
    try:
        yield
    finally:
        os.environ[_TIMEOUT] = _ENVIRONMENT[_TIMEOUT]
