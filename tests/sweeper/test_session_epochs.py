"""A session where every epoch is a candidate, and trials that are stopped before their end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.candidates import FrontKeeper
from sweeper.ledger import Ledger
from sweeper.session import SweepSession
from tests.sweeper.conftest import OUTCOME, states
from trainables.candidates import candidate_folder, read_front

GOALS = (("forget_loss_capped", "max"), ("retain_loss", "min"))


def report(epoch: int, forget: float, retain: float) -> dict[str, Any]:
    losses = {"forget_loss": forget, "forget_loss_capped": forget, "retain_loss": retain}
    return {"step": 4 * epoch, "epoch": float(epoch), "lr": 0.5, **losses, "train_seconds": 2.0, "worker": "w"}


@pytest.fixture
def every_epoch(session: SweepSession, out: Path) -> SweepSession:
    return replace(session, ledger=Ledger(out, every_epoch=True), front=FrontKeeper(out, GOALS))


def keep_model(out: Path, trial_id: str, epoch: int) -> Path:
    """As the worker does before it reports."""
    folder = out / candidate_folder(trial_id, float(epoch))
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("weights")
    return folder


def test_an_epoch_on_the_front_keeps_its_model_until_another_dominates_it(every_epoch: SweepSession, out: Path) -> None:
    every_epoch.next_trial()
    folders = []
    for epoch, forget, retain in ((1, 1.0, 0.5), (2, 2.0, 0.9), (3, 3.0, 0.4)):
        folders.append(keep_model(out, "00000", epoch))
        every_epoch.reported("00000", report(epoch, forget, retain))
        assert [folder.is_dir() for folder in folders] == ([True] * epoch if epoch < 3 else [False, False, True])
    (out / "checkpoints" / "00000").mkdir()
    every_epoch.reported("00000", report(4, 3.0, 0.3))
    every_epoch.ended("00000", OUTCOME | {"steps": 16})
    every_epoch.put_in_order()
    assert [(row["epoch"], row["step"], row["checkpoint"]) for row in every_epoch.ledger.candidates.read()] == [
        *(("1.0", "4", ""), ("2.0", "8", ""), ("3.0", "12", "")),
        ("4.0", "16", "checkpoints/00000"),
    ]


def test_a_report_that_repeats_old_losses_is_no_candidate(every_epoch: SweepSession) -> None:
    every_epoch.next_trial()
    every_epoch.reported("00000", report(1, 1.0, 0.5))
    every_epoch.reported("00000", report(2, 1.0, 0.5) | {"evaluated": False})
    assert [row["epoch"] for row in every_epoch.ledger.candidates.read()] == ["1.0"]
    assert len(every_epoch.ledger.history.read()) == 2


def test_a_resumed_sweep_forgets_the_epochs_an_unfinished_trial_will_make_again(
    every_epoch: SweepSession, out: Path
) -> None:
    every_epoch.next_trial()
    kept, lost = keep_model(out, "00000", 1), keep_model(out, "00000", 2)
    every_epoch.reported("00000", report(1, 1.0, 0.5))
    every_epoch.reported("00000", report(2, 2.0, 0.9))
    half = out / "checkpoints" / ".00000-epoch-3.0123abcd"
    half.mkdir()
    ledger = Ledger(out, every_epoch=True)
    ledger.mend({"00000": 4})
    resumed = replace(every_epoch, ledger=ledger, front=FrontKeeper(out, GOALS))
    assert [row["epoch"] for row in ledger.candidates.read()] == ["1.0"]
    assert [kept.is_dir(), lost.is_dir(), half.is_dir()] == [True, False, False]
    assert read_front(out) == [(-1.0, 0.5)]
    told = []
    resumed.study.tell = lambda *row, candidates: told.append(candidates)  # type: ignore[method-assign]
    resumed.study.take_up({})
    resumed.next_trial()
    resumed.reported("00000", report(2, 2.0, 0.9))
    resumed.ended("00000", OUTCOME)
    assert [[float(row["epoch"]) for row in rows] for rows in told] == [[1.0, 2.0]]


def test_a_stopped_trial_has_the_values_of_its_last_report(session: SweepSession, out: Path) -> None:
    following = session.next_trial()
    assert following is not None
    session.reported("00000", report(1, 1.0, 0.5))
    session.reported("00000", report(2, 2.0, 0.9))
    session.stopped("00000")
    (row,) = session.ledger.trials.read()
    expected = {"status": "stopped", "steps": "8", "epochs_done": "2.0", "forget_loss": "2.0", "retain_loss": "0.9"}
    expected |= {"train_seconds": "2.0", "worker": "w", "checkpoint": "", "error": ""}
    assert {name: row[name] for name in expected} == expected
    assert float(row["lr"]) == following[1].lr
    assert states(out) == {"PRUNED": 1}


def test_a_trial_that_is_stopped_before_it_reports_again_has_its_row_from_the_history(
    session: SweepSession, out: Path
) -> None:
    """As one that was paused when the sweep was interrupted."""
    session.next_trial()
    session.reported("00000", report(1, 1.0, 0.5))
    resumed = replace(session, ledger=Ledger(out))
    resumed.study.take_up({})
    resumed.next_trial()
    resumed.stopped("00000")
    (row,) = resumed.ledger.trials.read()
    assert (row["status"], row["steps"], row["epochs_done"], row["forget_loss"]) == ("stopped", "4", "1.0", "1.0")
