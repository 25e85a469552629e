"""Find and delete saved states. An unfinished trial continues from its last saved state."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.settings.sweep_settings import RUN_STATES, SweepSettings
from trainables.storage import Storage, StorageError


@dataclass(frozen=True, slots=True)
class SavedState:
    """A trial's saved state after training step ``step``. ``path`` is a folder or a key in object storage."""

    path: str
    step: int


def state_storage(settings: SweepSettings, out: Path) -> Storage:
    """Return the storage in which Ray Tune saves the states of trials."""
    bucket = settings.bucket
    return Storage(settings.ray_storage(out).as_uri()) if bucket is None else bucket.subfolder(RUN_STATES)


def tune_storage(settings: SweepSettings, out: Path) -> tuple[dict[str, Any], int]:
    """Return the storage arguments of Tune's RunConfig, and the number of the next Tune run of the sweep."""
    states = state_storage(settings, out)
    arguments = {"storage_path": states.path}
    if settings.bucket is not None:
        arguments["storage_filesystem"] = states.filesystem
    last_attempt = max(_attempts(states), default=0)
    return arguments, last_attempt + 1


def state_keys(states: Storage, trial_id: str) -> list[str]:
    """Return the keys of a trial's saved states, newest first."""
    return [
        f"attempt-{number}/{trial_id}/{name}"
        for number in _attempts(states)
        for name in reversed(states.names(f"attempt-{number}/{trial_id}", folders=True))
        if name.startswith("checkpoint_")
    ]


def remove_states(states: Storage, trial_id: str) -> None:
    """Delete all saved states of a trial.

    Raises:
        StorageError, OSError: a state could not be deleted. The other states are deleted.
    """
    last_error: StorageError | OSError | None = None
    for key in state_keys(states, trial_id):
        try:
            states.delete(key)
        except (StorageError, OSError) as error:
            last_error = error
    if last_error is not None:
        raise last_error


def find_states(settings: SweepSettings, out: Path, last_steps: Mapping[str, int]) -> dict[str, SavedState]:
    """Return the newest usable saved state of each trial. Trials without a usable state are omitted.

    ``last_steps`` maps each trial id to the step of the trial's last report in the event log. A state is usable if it
    is complete and its step is not larger than this step. If a trial continued from a later state, reports would be
    missing.

    Raises:
        StorageError: the storage does not answer.
    """
    states = state_storage(settings, out)
    folder = RUN_STATES if settings.bucket is not None else states.path
    state_by_trial = {}
    for trial_id, last_step in last_steps.items():
        for key, step in _complete_states(states, trial_id, is_local=settings.bucket is None):
            if step <= last_step:
                state_by_trial[trial_id] = SavedState(f"{folder}/{key}", step)
                break
    return state_by_trial


def _complete_states(states: Storage, trial_id: str, *, is_local: bool) -> Iterator[tuple[str, int]]:
    """Yield the key and the step of each complete saved state of a trial, newest first."""
    from trainables.saved_state import STATE_FILE, read_state

    for key in state_keys(states, trial_id):
        if is_local:
            state = read_state(Path(states.path) / key)
        else:
            with tempfile.TemporaryDirectory(prefix="sweeper-") as scratch:
                states.get(f"{key}/{STATE_FILE}", Path(scratch) / STATE_FILE)
                state = read_state(Path(scratch))
        if state is not None:
            yield key, int(state["step"])


def _attempts(states: Storage) -> list[int]:
    """Return the numbers of all Tune runs of the sweep, newest first."""
    suffixes = [name.removeprefix("attempt-") for name in states.names(folders=True) if name.startswith("attempt-")]
    return sorted((int(suffix) for suffix in suffixes if suffix.isdecimal()), reverse=True)
