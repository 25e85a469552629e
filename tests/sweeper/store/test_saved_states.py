"""The saved states from which a resumed sweep continues its unfinished trials."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sweeper.store.saved_states import SavedState, find_states, remove_run_states, run_state_folders
from trainables.storage import Storage


def save_state(storage: Path, where: str, *, step: int, age: float, torn: bool = False) -> Path:
    import torch

    folder = storage / where
    folder.mkdir(parents=True)
    torch.save({"step": step, "done": False, "parameters": [torch.zeros(100)]}, folder / "state.pt")
    if torn:
        content = (folder / "state.pt").read_bytes()
        (folder / "state.pt").write_bytes(content[: len(content) // 2])
    os.utime(folder, (time.time() - age, time.time() - age))
    return folder


def test_a_trial_continues_from_its_newest_complete_state(tmp_path: Path) -> None:
    storage = tmp_path / "ray"
    old = save_state(storage, "attempt-10/00003/checkpoint_000000", step=10, age=300)
    complete = save_state(storage, "attempt-2/00003/checkpoint_000000", step=20, age=200)
    torn = save_state(storage, "attempt-2/00003/checkpoint_000001", step=30, age=100, torn=True)
    assert run_state_folders(storage, "00003") == [torn, complete, old]
    (storage / "attempt-2/00003/checkpoint_000002").mkdir()
    assert find_states(storage, {"00003": 40, "00004": 40}) == {"00003": SavedState(str(complete.resolve()), 20)}
    assert find_states(storage, {"00003": 15}) == {"00003": SavedState(str(old.resolve()), 10)}, "reports were lost"
    assert find_states(storage, {"00003": 5}) == find_states(storage, {}) == {}
    assert find_states(tmp_path / "nowhere", {"00003": 40}) == {}
    other = save_state(storage, "attempt-2/00004/checkpoint_000000", step=10, age=0)
    remove_run_states(storage, "00003")
    assert [*storage.glob("*/*/*")] == [other]


def test_a_state_in_object_storage_is_used_only_if_the_event_log_has_its_reports(tmp_path: Path) -> None:
    """Reports between the last upload of the log and the state would be missing forever."""
    storage = Storage((tmp_path / "bucket").as_uri())
    for trial_id in ("00003", "00004"):
        save_state(tmp_path / "bucket" / "ray", f"attempt-1/{trial_id}/checkpoint_000000", step=20, age=0)
    found = find_states(storage, {"00003": 20, "00004": 10, "00005": 10})
    assert found == {"00003": SavedState("ray/attempt-1/00003/checkpoint_000000", 20)}
