"""What candidates.csv has lost of finished trials is taken from history.csv, or the sweep is not resumed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sweeper.store.folder import UsageError
from sweeper.store.lost_rows import put_back
from sweeper.store.tables import ResultTables

LOSSES = {"forget_loss": 4.0, "forget_loss_capped": 4.0, "retain_loss": 0.5}


@pytest.fixture
def tables(tmp_path: Path) -> ResultTables:
    """Trials of four epochs: finished, finished and evaluated after every other one, still running, diverged."""
    tables = ResultTables(tmp_path, every_epoch=True)
    for trial_id, every, status in (
        *(("00000", 1, "finished"), ("00001", 2, "finished"), ("00002", 1, ""), ("00003", 1, "diverged")),
    ):
        for epoch in range(1, 5):
            lost = epoch == 4 and status == "diverged"
            report = {"epoch": float(epoch), "step": 10 * epoch, "evaluated": epoch % every == 0 and not lost, **LOSSES}
            tables.add_report(trial_id, report | ({"verbmem": 0.5} if epoch == 4 and not lost else {}))
        if status:
            tables.add_trial({"trial_id": trial_id, "status": status, "steps": 40, "eval_every": every})
    tables.write()
    (tmp_path / "checkpoints" / "00000-epoch-2").mkdir(parents=True)
    return tables


def places(tables: ResultTables) -> set[tuple[str, str]]:
    return {(row["trial_id"], row["step"]) for row in tables.candidates.read()}


def cut(path: Path, *, keep: int) -> None:
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join(rows[: keep + 1]))


def test_of_a_whole_table_nothing_is_restored(tables: ResultTables) -> None:
    before, trials = tables.candidates.path.read_bytes(), tables.trials.read()
    assert put_back(tables, trials) == ""
    by_another_program = {"steps": "{steps}.0", "eval_every": "{eval_every}.0"}
    assert put_back(tables, [row | {k: v.format(**row) for k, v in by_another_program.items()} for row in trials]) == ""
    assert tables.candidates.path.read_bytes() == before


@pytest.mark.parametrize("keep", [None, 0, 2], ids=["deleted", "header", "cut"])
def test_epochs_that_a_table_has_lost_are_restored(tables: ResultTables, keep: int | None) -> None:
    every = places(tables)
    if keep is None:
        tables.candidates.path.unlink()
    else:
        cut(tables.candidates.path, keep=keep)
    assert f" {13 - (keep or 0)} " in put_back(tables, tables.trials.read())
    assert places(tables) == every
    with tables.candidates.path.open(newline="") as file:
        rows = {(row["trial_id"], row["step"]): row for row in csv.DictReader(file)}
    assert rows["00001", "40"]["verbmem"] == "0.5"
    assert rows["00001", "40"]["retain_loss"] == "0.5"
    if keep != 2:
        assert rows["00000", "20"]["checkpoint"] == "checkpoints/00000-epoch-2"


def test_an_epoch_that_a_killed_driver_did_not_write_is_restored_silently(tables: ResultTables) -> None:
    rows = tables.candidates.read()
    tables.candidates.rewrite(row for row in rows if (row["trial_id"], row["step"]) != ("00002", "40"))
    assert put_back(tables, tables.trials.read()) == ""
    assert ("00002", "40") in places(tables)


def test_a_sweep_whose_epochs_neither_table_has_is_not_resumed(tables: ResultTables) -> None:
    cut(tables.candidates.path, keep=5)
    cut(tables.history.path, keep=7)
    with pytest.raises(UsageError, match="00001"):
        put_back(tables, tables.trials.read())


def test_a_reused_trial_is_left_alone(tables: ResultTables) -> None:
    trials = [row | {"reused_from": "runs/before/00003"} for row in tables.trials.read()]
    cut(tables.history.path, keep=8)
    tables.candidates.path.unlink()
    assert put_back(tables, trials) == ""
