"""Share a sweep's target through its storage: uploaded once, and downloaded once by each node without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from search_spaces.checksums import CHECKSUMS, damaged_files, parse_checksums
from search_spaces.durable import wait_for_lock
from trainables.storage import Storage, StorageError
from trainables.target.cache import cache_folder
from trainables.target.target import Target

FOLDER = "targets"
"""The folder of targets in the storage; each target's folder is named by its content key."""
_MADE = "target.json"
"""A file in the folder of a target trained here; the folder is named by what it was trained from."""
_NEVER_READ = {".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx"}
_local: dict[str, Target] = {}


def share_target(target: Target, storage: Storage) -> None:
    """Upload the model to the storage, unless it is there.

    Raises:
        StorageError: the storage refuses.
    """
    key = f"{FOLDER}/{target.key}"
    if not storage.has_folder(key):
        files = (path for path in Path(target.path).iterdir() if path.is_file() and path.suffix not in _NEVER_READ)
        storage.put(Path(target.path), key, names=[path.name for path in files if not path.name.startswith(".")])


def local_target(target: Target, storage: Storage | None) -> Target:
    """Return the target with a path on this machine: its own path, the cache, or a download from the storage.

    The folder must have the content that the storage has. Each process checks once.

    Raises:
        StorageError: the target is missing, or the storage does not answer.
    """
    if storage is None:
        return target
    if target.key not in _local:
        place = place_of(target.key, Path(target.path), storage)
        _local[target.key] = replace(target, path=str(place))
    return _local[target.key]


def place_of(key: str, origin: Path, storage: Storage) -> Path:
    """Return the folder on this machine of the target with this key, which the sweep's driver had in ``origin``.

    Raises:
        StorageError: the target is missing, or the storage does not answer.
    """
    there = storage.read(f"{FOLDER}/{key}/{CHECKSUMS}")
    if there is None:
        raise StorageError(f"{FOLDER}/{key}: the storage has no such target")
    known = parse_checksums(there)
    own = cache_folder() / "targets" / (origin.name if _MADE in known else key)
    for place in dict.fromkeys((origin, own)):
        if place.is_dir() and not damaged_files(place, known):
            return place
    with wait_for_lock(own.parent.with_name("unfinished") / f"{own.name}.lock", lambda: None):
        if not own.is_dir() or damaged_files(own, known):  # otherwise another process of this machine was faster
            storage.get(f"{FOLDER}/{key}", own)
    return own


def fetch_target(key: str, origin: Path, storage: Storage) -> None:
    """Download a sweep's trained target into the cache of this machine, so that it is not trained again.

    Raises:
        StorageError: the storage does not answer.
    """
    if not origin.is_dir() and storage.has_folder(f"{FOLDER}/{key}"):
        place_of(key, origin, storage)
