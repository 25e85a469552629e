"""The target of a sweep in its storage: put there once, and fetched once by each node that does not have it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from search_spaces.checksums import CHECKSUMS, damaged, parsed
from search_spaces.durable import in_turn
from trainables.storage import Storage, StorageError
from trainables.target.cache import cache_folder
from trainables.target.target import Target

FOLDER = "targets"
"""In the storage, with a folder per target, named by its content key."""
_MADE = "target.json"
"""In the folder of a target that was trained here; its name is what it was trained from."""
_NEVER_READ = {".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx"}
_at_hand: dict[str, Target] = {}


def share_target(target: Target, storage: Storage) -> None:
    """Put the model into the storage, unless it is there.

    Raises:
        StorageError: it refuses.
    """
    key = f"{FOLDER}/{target.key}"
    if not storage.has_folder(key):
        files = (path for path in Path(target.path).iterdir() if path.is_file() and path.suffix not in _NEVER_READ)
        storage.put(Path(target.path), key, names=[path.name for path in files if not path.name.startswith(".")])


def target_at_hand(target: Target, storage: Storage | None) -> Target:
    """The target as this machine has it: where its path says, in the cache, or fetched from the storage now.

    What is found must have the content that is in the storage; a process looks once.

    Raises:
        StorageError: it is nowhere, or the storage does not answer.
    """
    if storage is None:
        return target
    if target.key not in _at_hand:
        place = place_of(target.key, Path(target.path), storage)
        _at_hand[target.key] = replace(target, path=str(place))
    return _at_hand[target.key]


def place_of(key: str, origin: Path, storage: Storage) -> Path:
    """Where on this machine the target of this key is, which the sweep's driver had in the folder ``origin``.

    Raises:
        StorageError: it is nowhere, or the storage does not answer.
    """
    there = storage.read(f"{FOLDER}/{key}/{CHECKSUMS}")
    if there is None:
        raise StorageError(f"{FOLDER}/{key}: there is no such target in the storage")
    known = parsed(there)
    own = cache_folder() / "targets" / (origin.name if _MADE in known else key)
    for place in dict.fromkeys((origin, own)):
        if place.is_dir() and not damaged(place, known):
            return place
    with in_turn(own.parent.with_name("unfinished") / f"{own.name}.lock", lambda: None):
        if not own.is_dir() or damaged(own, known):  # else another process of this machine was faster
            storage.get(f"{FOLDER}/{key}", own)
    return own


def fetch_target(key: str, origin: Path, storage: Storage) -> None:
    """Where a sweep goes on on another machine: have its target in the cache of this one, if it was trained.

    It would be trained again else.

    Raises:
        StorageError: the storage does not answer.
    """
    if not origin.is_dir() and storage.has_folder(f"{FOLDER}/{key}"):
        place_of(key, origin, storage)
