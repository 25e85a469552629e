"""The tables of a sweep: whole rows only, whatever a kill or a full disk does to them."""

from __future__ import annotations

import csv
import math
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeper.store.tables import CsvTable, Mark, ResultTables
from tests.conftest import disk_full_after

COLUMNS = ("trial_id", "step", "value")


@pytest.fixture
def log(tmp_path: Path) -> CsvTable:
    return CsvTable(tmp_path / "log.csv", COLUMNS, sync=True)


@pytest.fixture
def tables(tmp_path: Path) -> ResultTables:
    return ResultTables(tmp_path)


def ids(log: CsvTable) -> list[str]:
    return [row["trial_id"] for row in log.read()]


# One log ------------------------------------------------------------------------------------------------------------


def test_what_is_appended_is_read_back_in_order_as_by_the_standard_library(log: CsvTable) -> None:
    assert log.read() == []
    log.append([{"trial_id": "00000", "step": 1, "value": 0.1 + 0.2}])
    log.append([{"trial_id": "00001", "step": 2, "value": 'a "b",\nc'}, {"trial_id": "00002", "value": "ü"}])
    expected = [("00000", "1", repr(0.1 + 0.2)), ("00001", "2", 'a "b",\nc'), ("00002", "", "ü")]
    assert [tuple(row.values()) for row in log.read()] == expected
    with log.path.open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == log.read()
    before = log.path.read_bytes()
    assert before.splitlines()[0] == b"trial_id,step,value"
    log.rewrite(log.read())
    assert log.path.read_bytes() == before


@pytest.mark.parametrize(
    ("value", "cell"),
    [(None, ""), (math.nan, ""), (np.float64("nan"), ""), (0.0, "0.0"), (False, "False"), (np.float32(0.5), "0.5")],
    ids=repr,
)
def test_missing_values_are_empty_and_others_are_plain(log: CsvTable, value: object, cell: str) -> None:
    log.append([{"trial_id": "00000", "value": value}])
    assert log.read()[0]["value"] == cell


@settings(max_examples=25)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_floats_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    log = CsvTable(tmp_path_factory.mktemp("floats") / "log.csv", COLUMNS, sync=False)
    log.append({"value": value} for value in values)
    assert [float(row["value"]).hex() for row in log.read()] == [value.hex() for value in values]


def test_a_table_keeps_its_old_header_until_it_is_replaced(log: CsvTable) -> None:
    log.path.write_text("trial_id,old\n00000,x\n")
    log.append([{"trial_id": "00001", "old": "y", "step": 2, "value": 0.5}])
    assert log.path.read_text() == "trial_id,old\n00000,x\n00001,y\n"
    log.rewrite({**row, "value": 0.25} for row in log.read())
    log.append([{"trial_id": "00002", "step": 3, "value": 1.0}])
    expected = ["trial_id,step,value,old", "00000,,0.25,x", "00001,,0.25,y", "00002,3,1.0,"]
    assert log.path.read_text().splitlines() == expected


@pytest.mark.parametrize("value", ["c, d", 'a\n"b"\nc'], ids=["one line", "line breaks in quotes"])
def test_a_torn_last_row_is_left_out_at_every_length(log: CsvTable, value: str) -> None:
    log.append([{"trial_id": "00000", "step": 1, "value": "a, b"}])
    whole = log.path.read_bytes()
    log.append([{"trial_id": "00001", "step": 2, "value": value}])
    both = log.path.read_bytes()
    for length in range(len(whole), len(both)):
        log.path.write_bytes(both[:length])
        assert ids(log) == ["00000"], f"cut after {both[:length]!r}"
    log.path.write_text("trial_id,st")
    assert log.read() == []


@pytest.mark.parametrize(("fits", "rows"), [(0, 1), (7, 1), (40, 1), (1, 400)])
def test_a_write_on_a_full_disk_leaves_the_file_as_before_and_ready_for_the_next_row(
    log: CsvTable, fits: int, rows: int
) -> None:
    log.append([{"trial_id": "00000", "step": 1, "value": "kept"}])
    before = log.path.read_bytes()
    lost = [{"trial_id": "00001", "step": step, "value": "x" * 60} for step in range(rows)]
    with disk_full_after(len(before) + fits), pytest.raises(OSError, match="File too large"):
        log.append(lost)
    assert log.path.read_bytes() == before
    with disk_full_after(20), pytest.raises(OSError, match="File too large"):
        log.rewrite(log.read())
    assert log.path.read_bytes() == before
    assert [path.name for path in log.path.parent.iterdir()] == ["log.csv"]
    log.append([{"trial_id": "00002", "step": 3, "value": "after"}])
    assert ids(log) == ["00000", "00002"]


def test_an_append_that_cannot_be_synced_leaves_nothing(log: CsvTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(number: int) -> None:
        raise OSError(28, "No space left on device")

    with disk_full_after(10), pytest.raises(OSError, match="File too large"):
        log.append([{"trial_id": "00000", "step": 1, "value": "lost"}])
    log.append([{"trial_id": "00000", "step": 1}])
    assert ids(log) == ["00000"], "the header came with the first row that fitted"
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        log.append([{"trial_id": "00001", "step": 2}])
    assert ids(log) == ["00000"]


@settings(max_examples=30)
@given(batches=st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=6), limit=st.integers(60, 200))
def test_reading_from_a_mark_gives_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]], limit: int
) -> None:
    log = CsvTable(tmp_path_factory.mktemp("on") / "log.csv", COLUMNS, sync=False)
    mark, found = Mark(), []
    for batch in batches:
        log.append({"value": text} for text in batch)
        while rows := (block := log.read_on(mark, limit=limit))[0]:
            found += rows
            mark = block[1]
    assert [row["value"] for row in found] == [row["value"] for row in log.read()]
    assert log.read_on(mark)[0] == []


def test_a_replaced_file_is_read_from_its_start(log: CsvTable) -> None:
    log.append([{"trial_id": "00001"}, {"trial_id": "00000"}])
    rows, mark = log.read_on(Mark())
    log.rewrite(rows[::-1])
    # The new file may have got the inode of the old one.
    for stale in (mark, replace(mark, inode=log.path.stat().st_ino)):
        rows, after = log.read_on(stale)
        assert [row["trial_id"] for row in rows] == ["00000", "00001"]
    log.append([{"trial_id": "00002"}])
    assert [row["trial_id"] for row in log.read_on(after)[0]] == ["00002"]
    log.path.unlink()
    assert log.read_on(after) == ([], Mark())


# All tables ---------------------------------------------------------------------------------------------------------


def report(trial_id: str, step: int) -> dict[str, object]:
    return {"trial_id": trial_id, "step": step}


def steps(log: CsvTable) -> list[tuple[str, int]]:
    return [(row["trial_id"], int(row["step"])) for row in log.read()]


def test_a_report_has_its_time_and_its_autolr_updates_their_own_table(tables: ResultTables) -> None:
    before = time.time()
    tables.add_report("00000", {"step": 3, "forget_loss": 1.0, "auto_lr": [{"step": 1, "eta": 0.5}]})
    tables.write()
    (row,), (update,) = tables.history.read(), tables.auto_lr.read()
    assert (row["trial_id"], row["step"]) == ("00000", "3")
    assert before <= float(row["reported_at"]) <= time.time()
    assert (update["trial_id"], update["step"], update["eta"]) == ("00000", "1", "0.5")


def test_mending_drops_what_will_be_written_again_and_nothing_of_finished_trials(tables: ResultTables) -> None:
    finished = {"trial_id": "00000", "status": "finished", "forget_loss": 1 / 3, "error": 'ValueError: "a", b'}
    tables.trials.append([finished])
    for step in (0, 2, 4, 6):
        for log in (tables.history, tables.auto_lr):
            log.append(report(trial_id, step) for trial_id in ("00000", "00001", "00002"))
    before = tables.trials.path.read_bytes()
    for log in (tables.trials, tables.history):
        with log.path.open("a") as file:
            file.write("00001,3f")  # torn
    tables.mend({"00001": 4})
    assert tables.trials.path.read_bytes() == before
    kept = [*(("00000", step) for step in (0, 2, 4, 6)), *(("00001", step) for step in (0, 2, 4))]
    for log in (tables.history, tables.auto_lr):
        assert sorted(steps(log)) == kept
    tables.history.append([report("00002", 0)])  # a trial that diverges at once reports step 0, here again
    assert steps(tables.history)[-1] == ("00002", 0)


def test_mending_drops_the_rows_of_trials_that_run_again_and_second_rows(tables: ResultTables) -> None:
    for trial_id in ("00000", "00001", "00002"):
        for step in (1, 2):
            tables.add_report(trial_id, {"step": step, "epoch": float(step)})
        tables.add_trial({"trial_id": trial_id, "status": "failed", "steps": 10})
    tables.add_trial({"trial_id": "00000", "status": "finished", "steps": 11})
    tables.write()
    tables.mend({"00002": 1}, again={"00001", "00002"})
    assert [(row["trial_id"], row["steps"]) for row in tables.trials.read()] == [("00000", "10")]
    assert steps(tables.history) == [("00000", 1), ("00000", 2), ("00002", 1)]


def test_mending_an_empty_folder_makes_a_table_without_trials(tables: ResultTables) -> None:
    """Where trials.csv is missing later on, it is lost."""
    tables.mend({})
    assert [path.name for path in tables.out.iterdir()] == ["trials.csv"]
    assert tables.trials.read() == []


def test_tables_are_sorted_by_trial_and_step(tables: ResultTables) -> None:
    tables.trials.append({"trial_id": trial_id} for trial_id in ("00010", "00002", "00001"))
    for log in (tables.history, tables.auto_lr):
        log.append(report(trial_id, step) for trial_id, step in (("00002", 10), ("00001", 9), ("00002", 2)))
    tables.sort()
    assert ids(tables.trials) == ["00001", "00002", "00010"]
    assert steps(tables.history) == steps(tables.auto_lr) == [("00001", 9), ("00002", 2), ("00002", 10)]
