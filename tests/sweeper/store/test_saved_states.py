"""What a resumed sweep continues from: the newest whole state of each trial that was running."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sweeper.search.study import Proposal
from sweeper.store.saved_states import restorable, restorable_from
from sweeper.store.tables import ResultTables
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


def test_a_trial_goes_on_from_its_newest_whole_state(tmp_path: Path) -> None:
    storage = tmp_path / "ray"
    save_state(storage, "attempt-1/00003/checkpoint_000000", step=10, age=300)
    whole = save_state(storage, "attempt-2/00003/checkpoint_000000", step=20, age=200)
    save_state(storage, "attempt-2/00003/checkpoint_000001", step=30, age=100, torn=True)
    (storage / "attempt-2/00003/checkpoint_000002").mkdir()

    found = restorable(storage, [Proposal("00003", {}), Proposal("00004", {})])

    assert found == {"00003": (str(whole.resolve()), 20)}


def test_without_saved_states_trials_begin_anew(tmp_path: Path) -> None:
    assert restorable(tmp_path / "ray", [Proposal("00000", {})]) == {}
    save_state(tmp_path / "ray", "attempt-1/00000/checkpoint_000000", step=5, age=0, torn=True)
    assert restorable(tmp_path / "ray", [Proposal("00000", {})]) == {}
    assert restorable(tmp_path / "ray", []) == {}


def test_a_state_in_a_storage_that_the_mirrored_tables_have_not_reached_is_not_gone_on_from(tmp_path: Path) -> None:
    """What was reported between the last mirror and the state would be missing for ever."""
    storage, tables = Storage((tmp_path / "bucket").as_uri()), ResultTables(tmp_path)
    for trial_id in ("00003", "00004", "00005"):
        save_state(tmp_path / "bucket" / "ray", f"attempt-1/{trial_id}/checkpoint_000000", step=20, age=0)
    tables.history.append([{"trial_id": "00003", "step": 20}, {"trial_id": "00004", "step": 10}])

    found = restorable_from(storage, [Proposal(f"0000{number}", {}) for number in (3, 4, 5, 6)], tables)

    assert found == {"00003": ("ray/attempt-1/00003/checkpoint_000000", 20)}
