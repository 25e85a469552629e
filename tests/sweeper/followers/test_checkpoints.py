"""The front over all epochs, and the folders of just these: after any order of reports, saves and kills."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import durable
from sweeper.followers.checkpoints import CheckpointManager
from trainables.candidates import candidate_folder, costs_of, dominates, read_front

GOALS = (("gain", "max"), ("loss", "min"))
Epoch = tuple[str, int, float | None, float | None]


def row(trial_id: str, epoch: int, gain: float | None, loss: float | None) -> dict[str, object]:
    return {"trial_id": trial_id, "epoch": float(epoch), "gain": gain, "loss": loss}


def save(out: Path, trial_id: str, epoch: int) -> None:
    folder = out / candidate_folder(trial_id, epoch)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_text(f"{trial_id} {epoch}")


def kept(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in (out / "checkpoints").iterdir()}


def brute_force(rows: list[Epoch]) -> set[tuple[str, int]]:
    """The front by its definition, over values as NumPy compares them."""
    known = [(item[:2], np.array([-item[2], item[3]])) for item in rows if item[2] is not None and item[3] is not None]
    beaten = [any((b <= a).all() and (b < a).any() for _, b in known) for _, a in known]
    return {key for (key, _), lost in zip(known, beaten, strict=True) if not lost}


values = st.one_of(st.none(), st.integers(0, 4).map(float))
events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), values, values), max_size=25)


@given(events=events, kills=st.sets(st.integers(0, 24)), silent=st.sets(st.integers(0, 24)))
def test_what_is_kept_is_the_front_after_any_order_of_reports_and_kills(
    events: list[Epoch], kills: set[int], silent: set[int]
) -> None:
    """``silent``: the worker did not save, knowing that the epoch is dominated; a kill loses what is in memory."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        (out / "checkpoints").mkdir()
        (out / "checkpoints" / "a").mkdir()  # of a trial that finished
        keeper, told = CheckpointManager(out, GOALS), dict[tuple[str, int], Epoch]()
        for number, event in enumerate(events):
            event = told.setdefault(event[:2], event)  # what is reported again is the same
            costs = costs_of(row(*event), GOALS)
            known = costs is None or any(dominates(other, costs) for other in read_front(out))
            if not (known and number in silent) and costs is not None:
                save(out, *event[:2])
            if number in kills:
                keeper = CheckpointManager(out, GOALS)
                keeper.take_up([row(*item) for item in told.values()])
            else:
                keeper.add(event[0], row(*event))
            expected = brute_force(list(told.values()))
            assert {key for key in told if key in keeper} == expected
            assert kept(out) == {Path(candidate_folder(*key)).as_posix() for key in expected} | {"checkpoints/a"}
            assert set(read_front(out)) == {costs_of(row(*told[key]), GOALS) for key in expected}


@pytest.mark.parametrize("value", [None, "", "nan", float("inf"), "text"])
def test_an_epoch_without_a_finite_objective_is_no_candidate(value: object) -> None:
    assert costs_of({"gain": value, "loss": 1.0}, GOALS) is None
    assert costs_of({"gain": "2.5", "loss": 1.0}, GOALS) == (-2.5, 1.0)


def test_a_killed_deletion_is_finished_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = CheckpointManager(tmp_path, GOALS)
    save(tmp_path, "a", 1)
    keeper.add("a", row("a", 1, 1.0, 1.0))
    with monkeypatch.context() as patch:
        patch.setattr(durable, "_remove", lambda path: None)  # killed between the renaming and the deletion
        keeper.add("a", row("a", 2, 2.0, 0.5))
    (left,) = kept(tmp_path)
    assert Path(left).name.startswith(".a-epoch-1.")
    CheckpointManager(tmp_path, GOALS).take_up([row("a", 1, 1.0, 1.0), row("a", 2, 2.0, 0.5)])
    assert kept(tmp_path) == set()


def test_a_disk_that_refuses_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    keeper = CheckpointManager(tmp_path, GOALS)
    save(tmp_path, "a", 1)
    keeper.add("a", row("a", 1, 1.0, 1.0))
    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    keeper.add("a", row("a", 2, 2.0, 0.5))
    assert ("a", 2.0) in keeper
    monkeypatch.undo()
    keeper.remove_others()
    assert kept(tmp_path) == set()


def test_three_objectives_and_one_measured_at_the_end_only(tmp_path: Path) -> None:
    goals = (*GOALS, ("score", "max"))
    keeper = CheckpointManager(tmp_path, goals)
    keeper.add("a", row("a", 1, 9.0, 0.0))
    assert len(keeper) == 0
    keeper.add("a", row("a", 2, 1.0, 1.0) | {"score": 0.5})
    keeper.add("b", row("b", 2, 0.0, 2.0) | {"score": 0.6})
    assert len(keeper) == 2
