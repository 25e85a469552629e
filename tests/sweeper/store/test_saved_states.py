"""The saved states from which a resumed sweep continues its unfinished trials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.store.saved_states import SavedState, find_states, remove_states, state_keys, state_storage
from tests.sweeper.conftest import SETTINGS


def save_state(folder: Path, *, step: int, torn: bool = False) -> Path:
    import torch

    folder.mkdir(parents=True)
    torch.save({"step": step, "done": False, "parameters": [torch.zeros(100)]}, folder / "state.pt")
    if torn:
        content = (folder / "state.pt").read_bytes()
        (folder / "state.pt").write_bytes(content[: len(content) // 2])
    return folder


@pytest.mark.parametrize("is_bucket", [False, True], ids=["shared folder", "object storage"])
def test_a_trial_continues_from_its_newest_complete_state_whose_reports_are_in_the_event_log(
    tmp_path: Path, is_bucket: bool
) -> None:
    """Reports between the last write of the log and a later state would be missing forever."""
    settings, out, folder = SETTINGS, tmp_path / "out", tmp_path / "out" / "ray"
    if is_bucket:
        settings = replace(SETTINGS, storage=(tmp_path / "bucket").as_uri(), stored_as="sweep")
        folder = tmp_path / "bucket" / "sweep" / "ray"
    at = "ray" if is_bucket else str(folder)
    states = state_storage(settings, out)
    assert find_states(settings, out, {"00003": 40}) == {}
    save_state(folder / "attempt-2/00003/checkpoint_000000", step=10)
    save_state(folder / "attempt-10/00003/checkpoint_000000", step=20)
    save_state(folder / "attempt-10/00003/checkpoint_000001", step=30, torn=True)
    (folder / "attempt-10/00003/checkpoint_000002").mkdir()
    newest = [f"attempt-10/00003/checkpoint_00000{number}" for number in (2, 1, 0)]
    assert state_keys(states, "00003") == [*newest, "attempt-2/00003/checkpoint_000000"]
    found = {"00003": SavedState(f"{at}/attempt-10/00003/checkpoint_000000", 20)}
    assert find_states(settings, out, {"00003": 40, "00004": 40}) == found
    found = {"00003": SavedState(f"{at}/attempt-2/00003/checkpoint_000000", 10)}
    assert find_states(settings, out, {"00003": 15}) == found
    assert find_states(settings, out, {"00003": 5}) == find_states(settings, out, {}) == {}
    other = save_state(folder / "attempt-2/00004/checkpoint_000000", step=10)
    remove_states(states, "00003")
    assert [*folder.glob("*/*/*")] == [other]
