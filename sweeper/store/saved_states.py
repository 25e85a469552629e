"""The saved states of trials that are not over: where they are, and which can be gone on from."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.store.tables import ResultTables
from trainables.storage import Storage

if TYPE_CHECKING:
    from sweeper.search.study import Proposal
    from sweeper.settings.sweep_settings import SweepSettings

RUN_STATES = "ray"
"""In the storage: Ray Tune's own folder."""


def place_of_run_states(settings: SweepSettings, out: Path) -> tuple[dict[str, Any], int]:
    """Where Tune keeps its own state, in its words, and which attempt at the sweep this is."""
    if (bucket := settings.bucket) is not None:
        states = bucket.within(RUN_STATES)
        where = {"storage_path": states.path, "storage_filesystem": states.filesystem}
        return where, 1 + max((int(name.rpartition("-")[2]) for name in attempts(bucket)), default=0)
    storage = settings.ray_storage(out)
    return {"storage_path": str(storage)}, 1 + sum(1 for path in storage.glob("attempt-*") if path.is_dir())


def run_state_folders(storage: Path, trial_id: str) -> list[Path]:
    """The folders with saved states of an unfinished trial, newest first, over all attempts at the sweep."""
    return sorted(storage.glob(f"*/{trial_id}/checkpoint_*"), key=lambda path: path.stat().st_mtime, reverse=True)


def remove_run_states(storage: Path, trial_id: str) -> None:
    """Delete the saved states of a trial in a folder."""
    for folder in run_state_folders(storage, trial_id):
        shutil.rmtree(folder, ignore_errors=True)


def run_state_keys(storage: Storage, trial_id: str) -> list[str]:
    """The folders with saved states of an unfinished trial, newest first, over all attempts at the sweep.

    Raises:
        StorageError: it does not answer.
    """
    return [
        f"{RUN_STATES}/{attempt}/{trial_id}/{name}"
        for attempt in sorted(attempts(storage), key=lambda name: -int(name.rpartition("-")[2]))
        for name in reversed(storage.names(f"{RUN_STATES}/{attempt}/{trial_id}", folders=True))
        if name.startswith("checkpoint_")
    ]


def attempts(storage: Storage) -> list[str]:
    """The names of the attempts at the sweep so far.

    Raises:
        StorageError: it does not answer.
    """
    names = storage.names(RUN_STATES, folders=True)
    return [name for name in names if name.startswith("attempt-") and name.rpartition("-")[2].isdecimal()]


def restorable(storage: Path, again: Sequence[Proposal]) -> dict[str, tuple[str, int]]:
    """For trials that were running: the newest whole state of each, and its step."""
    if not again or not storage.is_dir():
        return {}
    from trainables.saved_state import read_state

    found = {}
    for proposal in again:
        for folder in run_state_folders(storage, proposal.trial_id):
            if (state := read_state(folder)) is not None:
                found[proposal.trial_id] = (str(folder.resolve()), int(state["step"]))
                break
    return found


def restorable_from(storage: Storage, again: Sequence[Proposal], tables: ResultTables) -> dict[str, tuple[str, int]]:
    """The same of a storage, where the folders are keys.

    Tables that were mirrored before a state was saved lack what was reported in between: that state is of no use.
    """
    from trainables.saved_state import STATE_FILE, read_state

    found, known = {}, {row["trial_id"]: int(row["step"]) for row in tables.history.read()}
    for proposal in again:
        for key in run_state_keys(storage, proposal.trial_id):
            with tempfile.TemporaryDirectory(prefix="sweeper-") as scratch:
                storage.get(f"{key}/{STATE_FILE}", Path(scratch) / STATE_FILE)
                state = read_state(Path(scratch))
            if state is not None and int(state["step"]) <= known.get(proposal.trial_id, -1):
                found[proposal.trial_id] = (key, int(state["step"]))
                break
    return found
