"""The saved states of unfinished trials: find them, delete them, and choose the one from which a trial continues."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.storage import Storage

if TYPE_CHECKING:
    from sweeper.settings.sweep_settings import SweepSettings

RUN_STATES = "ray"
"""Ray Tune's folder in object storage."""


def place_of_run_states(settings: SweepSettings, out: Path) -> tuple[dict[str, Any], int]:
    """Return Tune's storage location, as arguments of its RunConfig, and the number of this attempt at the sweep."""
    if (bucket := settings.bucket) is not None:
        states = bucket.within(RUN_STATES)
        where = {"storage_path": states.path, "storage_filesystem": states.filesystem}
        return where, 1 + max((int(name.rpartition("-")[2]) for name in attempts(bucket)), default=0)
    storage = settings.ray_storage(out)
    return {"storage_path": str(storage)}, 1 + sum(1 for path in storage.glob("attempt-*") if path.is_dir())


def run_state_folders(storage: Path, trial_id: str) -> list[Path]:
    """Return the folders with saved states of a trial, newest first, across all attempts at the sweep."""
    return sorted(storage.glob(f"*/{trial_id}/checkpoint_*"), key=lambda path: path.stat().st_mtime, reverse=True)


def remove_run_states(storage: Path, trial_id: str) -> None:
    """Delete all saved states of a trial from a local folder."""
    for folder in run_state_folders(storage, trial_id):
        shutil.rmtree(folder, ignore_errors=True)


def run_state_keys(storage: Storage, trial_id: str) -> list[str]:
    """Return the keys of the saved states of a trial, newest first, across all attempts at the sweep.

    Raises:
        StorageError: the storage does not answer.
    """
    return [
        f"{RUN_STATES}/{attempt}/{trial_id}/{name}"
        for attempt in sorted(attempts(storage), key=lambda name: -int(name.rpartition("-")[2]))
        for name in reversed(storage.names(f"{RUN_STATES}/{attempt}/{trial_id}", folders=True))
        if name.startswith("checkpoint_")
    ]


def attempts(storage: Storage) -> list[str]:
    """Return the names of the attempts at the sweep.

    Raises:
        StorageError: the storage does not answer.
    """
    names = storage.names(RUN_STATES, folders=True)
    return [name for name in names if name.startswith("attempt-") and name.rpartition("-")[2].isdecimal()]


@dataclass(frozen=True, slots=True)
class SavedState:
    """The newest complete saved state of a trial. ``place`` is its folder, or its key in object storage."""

    place: str
    step: int


def find_states(storage: Path | Storage, last_steps: Mapping[str, int]) -> dict[str, SavedState]:
    """Return the newest complete saved state of each trial that has one, from a local folder or object storage.

    ``last_steps`` maps each trial to the last step in the event log. A state after that step is not used, because the
    reports up to it were lost.

    Raises:
        StorageError: the storage does not answer.
    """
    found = {}
    for trial_id, last_step in last_steps.items():
        for place, step in _complete_states(storage, trial_id):
            if step <= last_step:
                found[trial_id] = SavedState(place, step)
                break
    return found


def _complete_states(storage: Path | Storage, trial_id: str) -> Iterator[tuple[str, int]]:
    """Yield the place and the step of each complete saved state of a trial, newest first."""
    from trainables.saved_state import STATE_FILE, read_state

    if isinstance(storage, Path):
        for folder in run_state_folders(storage, trial_id):
            if (state := read_state(folder)) is not None:
                yield str(folder.resolve()), int(state["step"])
        return
    for key in run_state_keys(storage, trial_id):
        with tempfile.TemporaryDirectory(prefix="sweeper-") as scratch:
            storage.get(f"{key}/{STATE_FILE}", Path(scratch) / STATE_FILE)
            if (state := read_state(Path(scratch))) is not None:
                yield key, int(state["step"])
