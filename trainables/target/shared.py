"""Share a sweep's target with other nodes: upload the target to the storage once, and download it once per node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from search_spaces.common.checksums import CHECKSUMS, damaged_files, parse_checksums
from search_spaces.common.durable import wait_for_lock
from trainables.storage import Storage, StorageError
from trainables.target.cache import RECORD, cache_folder, unfinished_file
from trainables.target.target import Target

FOLDER = "targets"
"""The folder of targets in the storage. Each target has a subfolder, named by its content key."""
_UNUSED_SUFFIXES = {".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx"}
_local_targets: dict[str, Target] = {}


def share_target(target: Target, storage: Storage) -> None:
    """Upload the target's model to the storage, unless the storage already has it.

    Raises:
        StorageError: the storage cannot be read or written.
    """
    key = f"{FOLDER}/{target.key}"
    if not storage.has_folder(key):
        files = [path for path in Path(target.path).iterdir() if path.is_file() and not path.name.startswith(".")]
        names = [path.name for path in files if path.suffix not in _UNUSED_SUFFIXES]
        storage.put(Path(target.path), key, names=names)


def local_target(target: Target, storage: Storage | None) -> Target:
    """Return the target with a path on this machine. If this machine does not have the target, download it.

    Without a storage, the target is returned unchanged.

    Raises:
        StorageError: the target is missing, or the storage does not answer.
    """
    if storage is None:
        return target
    if target.key not in _local_targets:
        folder = local_folder(target.key, Path(target.path), storage)
        _local_targets[target.key] = replace(target, path=str(folder))
    return _local_targets[target.key]


def local_folder(key: str, origin: Path, storage: Storage) -> Path:
    """Return a folder on this machine with the files of a target. If there is no such folder, download the target.

    The files in the folder are compared with the checksums in the storage.

    Args:
        key: the content key of the target.
        origin: the folder of the target on the driver's machine. If this machine has the same folder, it is used.
    """
    checksums_text = storage.read(f"{FOLDER}/{key}/{CHECKSUMS}")
    if checksums_text is None:
        raise StorageError(f"the storage has no target {FOLDER}/{key}")
    checksums = parse_checksums(checksums_text)
    # The cache names the folder of a trained model by a hash of its base model, data and recipe.
    copy = cache_folder() / "targets" / (origin.name if RECORD in checksums else key)
    folders = [copy] if copy == origin else [origin, copy]
    for folder in folders:
        if folder.is_dir() and not damaged_files(folder, checksums):
            return folder
    with wait_for_lock(unfinished_file(copy, ".lock"), lambda: None):
        if not copy.is_dir() or damaged_files(copy, checksums):  # otherwise another process has downloaded the target
            storage.get(f"{FOLDER}/{key}", copy)
    return copy


def fetch_target(key: str, origin: Path, storage: Storage) -> None:
    """Download a sweep's target to this machine's cache, so that the target is not trained again.

    Nothing is downloaded if the folder ``origin`` exists, or if the storage does not have the target.

    Raises:
        StorageError: the storage does not answer.
    """
    if not origin.is_dir() and storage.has_folder(f"{FOLDER}/{key}"):
        local_folder(key, origin, storage)
