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
from hypothesis import given
from hypothesis import strategies as st

from sweeper.columns import HISTORY_COLUMNS, PARAMETERS, TRIAL_COLUMNS
from sweeper.ledger import CsvLog, Ledger, Mark
from tests.conftest import disk_full_after

COLUMNS = ("trial_id", "step", "value")


@pytest.fixture
def log(tmp_path: Path) -> CsvLog:
    return CsvLog(tmp_path / "log.csv", COLUMNS, sync=True)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def rows_by_csv(path: Path) -> list[dict[str, str]]:
    """The file as the standard library reads it."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# One log ------------------------------------------------------------------------------------------------------------


def test_what_is_appended_is_read_back_in_order(log: CsvLog) -> None:
    log.append([{"trial_id": "00000", "step": 1, "value": 0.5}])
    log.append([{"trial_id": "00001", "step": 2, "value": 0.25}, {"trial_id": "00002", "step": 3, "value": 1.0}])

    assert [(row["trial_id"], row["step"], float(row["value"])) for row in log.read()] == [
        ("00000", "1", 0.5),
        ("00001", "2", 0.25),
        ("00002", "3", 1.0),
    ]
    assert rows_by_csv(log.path) == log.read()
    assert log.path.read_text().splitlines()[0] == "trial_id,step,value"


def test_a_log_that_does_not_exist_has_no_rows(log: CsvLog) -> None:
    assert log.read() == []


def test_a_file_keeps_its_columns_and_replaced_has_the_new_ones_too(log: CsvLog) -> None:
    log.path.write_text("trial_id,old\n00000,x\n")
    log.append([{"trial_id": "00001", "old": "y", "step": 2, "value": 0.5}])
    assert log.path.read_text() == "trial_id,old\n00000,x\n00001,y\n"

    log.rewrite({**row, "value": 0.25} for row in log.read())
    log.append([{"trial_id": "00002", "step": 3, "value": 1.0}])

    assert log.path.read_text().splitlines() == [
        "trial_id,step,value,old",
        "00000,,0.25,x",
        "00001,,0.25,y",
        "00002,3,1.0,",
    ]


def test_text_with_commas_quotes_and_breaks_stays_in_its_cell(log: CsvLog) -> None:
    text = 'shape (2, 3), not "(3, 2)"\nsecond line'
    log.append([{"trial_id": "00000", "value": text}, {"trial_id": "00001", "value": "ü"}])
    assert [row["value"] for row in log.read()] == [text, "ü"]
    assert [row["value"] for row in rows_by_csv(log.path)] == [text, "ü"]


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan")], ids=["none", "nan", "numpy nan"])
def test_what_is_missing_is_empty(log: CsvLog, missing: object) -> None:
    log.append([{"trial_id": "00000", "value": missing}])
    assert log.path.read_text().splitlines()[1] == "00000,,"


def test_zero_and_false_are_not_missing(log: CsvLog) -> None:
    log.append([{"trial_id": "00000", "step": 0, "value": 0.0}, {"trial_id": "00001", "step": 0, "value": False}])
    assert [(row["step"], row["value"]) for row in log.read()] == [("0", "0.0"), ("0", "False")]


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_floats_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    log = CsvLog(tmp_path_factory.mktemp("floats") / "log.csv", COLUMNS, sync=False)
    log.append({"value": value} for value in values)
    back = [float(row["value"]) for row in log.read()]
    assert [value.hex() for value in back] == [value.hex() for value in values]


def test_numpy_floats_are_written_as_plain_numbers(log: CsvLog) -> None:
    log.append([{"value": np.float64(0.1)}, {"value": np.float32(0.5)}])
    assert [float(row["value"]) for row in log.read()] == [0.1, 0.5]


def test_a_torn_last_line_is_left_out_at_every_length(log: CsvLog) -> None:
    log.append([{"trial_id": "00000", "step": 1, "value": "a, b"}])
    whole = log.path.read_bytes()
    log.append([{"trial_id": "00001", "step": 2, "value": "c, d"}])
    both = log.path.read_bytes()
    for length in range(len(whole), len(both)):
        log.path.write_bytes(both[:length])
        assert [row["trial_id"] for row in log.read()] == ["00000"], f"cut after {both[:length]!r}"


def test_a_torn_header_leaves_no_rows(log: CsvLog) -> None:
    log.path.write_text("trial_id,st")
    assert log.read() == []


def fail_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)


def test_an_append_that_could_not_be_synced_leaves_nothing(log: CsvLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append([{"trial_id": "00000", "step": 1}])
    before = log.path.read_bytes()
    with monkeypatch.context() as patch:
        fail_fsync(patch)
        with pytest.raises(OSError, match="No space left"):
            log.append([{"trial_id": "00001", "step": 2}])
    assert log.path.read_bytes() == before


@pytest.mark.parametrize("fits", [0, 1, 7, 40], ids=lambda fits: f"{fits} bytes fit")
@pytest.mark.parametrize("rows", [1, 400], ids=["one row", "more than a buffer"])
def test_after_a_write_on_a_full_disk_the_file_is_as_before_and_takes_the_next_row(
    log: CsvLog, fits: int, rows: int
) -> None:
    log.append([{"trial_id": "00000", "step": 1, "value": "kept"}])
    before = log.path.read_bytes()
    lost = [{"trial_id": "00001", "step": step, "value": "x" * 60} for step in range(rows)]

    with disk_full_after(len(before) + fits), pytest.raises(OSError, match="File too large"):
        log.append(lost)
    assert log.path.read_bytes() == before

    log.append([{"trial_id": "00002", "step": 3, "value": "after"}])
    assert [row["trial_id"] for row in log.read()] == ["00000", "00002"]


def test_a_new_file_whose_first_write_failed_gets_its_header_later(log: CsvLog) -> None:
    with disk_full_after(10), pytest.raises(OSError, match="File too large"):
        log.append([{"trial_id": "00000", "step": 1, "value": "lost"}])
    log.append([{"trial_id": "00001", "step": 2, "value": "kept"}])
    assert rows_by_csv(log.path) == [{"trial_id": "00001", "step": "2", "value": "kept"}]


def test_rewriting_on_a_full_disk_keeps_the_old_file_and_leaves_no_other(log: CsvLog) -> None:
    log.append([{"trial_id": f"{number:05d}", "step": number} for number in range(50)])
    before = log.path.read_bytes()
    with disk_full_after(100), pytest.raises(OSError, match="File too large"):
        log.rewrite(log.read())
    assert log.path.read_bytes() == before
    assert [path.name for path in log.path.parent.iterdir()] == ["log.csv"]


def test_reading_and_rewriting_changes_no_byte(log: CsvLog) -> None:
    log.append([{"trial_id": "00000", "step": 1, "value": 0.1 + 0.2}, {"trial_id": "00001", "value": 'a "b",\nc'}])
    before = log.path.read_bytes()
    log.rewrite(log.read())
    assert log.path.read_bytes() == before


def test_a_row_torn_at_a_line_break_inside_its_quotes_is_left_out(log: CsvLog) -> None:
    log.append([{"trial_id": "00000", "value": "whole"}])
    whole = log.path.read_bytes()
    log.append([{"trial_id": "00001", "value": 'a\n"b"\nc'}])
    both = log.path.read_bytes()
    for length in range(len(whole), len(both)):
        log.path.write_bytes(both[:length])
        assert [row["trial_id"] for row in log.read()] == ["00000"], f"cut after {both[:length]!r}"


@given(batches=st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=6), limit=st.integers(60, 200))
def test_reading_on_gives_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]], limit: int
) -> None:
    log = CsvLog(tmp_path_factory.mktemp("on") / "log.csv", COLUMNS, sync=False)
    mark, found = Mark(), []
    for batch in batches:
        log.append({"value": text} for text in batch)
        while rows := (block := log.read_on(mark, limit=limit))[0]:
            found += rows
            mark = block[1]
    assert [row["value"] for row in found] == [row["value"] for row in log.read()]
    assert log.read_on(mark)[0] == []


def test_a_file_that_was_replaced_is_read_from_its_start(log: CsvLog) -> None:
    log.append([{"trial_id": "00001"}, {"trial_id": "00000"}])
    rows, mark = log.read_on(Mark())
    log.rewrite(rows[::-1])
    rows, mark = log.read_on(mark)
    assert [row["trial_id"] for row in rows] == ["00000", "00001"]
    log.append([{"trial_id": "00002"}])
    assert [row["trial_id"] for row in log.read_on(mark)[0]] == ["00002"]
    log.path.unlink()
    assert log.read_on(mark) == ([], Mark())


# Both tables --------------------------------------------------------------------------------------------------------


def test_every_parameter_and_outcome_of_the_contract_has_a_column() -> None:
    assert {"trial_id", "spec_hash", "method", "model", "dataset", "c", "lr", "auto_lr", "seed"} <= set(TRIAL_COLUMNS)
    assert {"status", "steps", "forget_loss", "retain_loss", "forget_loss_capped", "verbmem"} <= set(TRIAL_COLUMNS)
    assert {"utility", "truth_ratio", "train_seconds", "eval_seconds", "wall_seconds"} <= set(TRIAL_COLUMNS)
    assert {"checkpoint", "error"} <= set(TRIAL_COLUMNS)
    assert set(PARAMETERS) < set(TRIAL_COLUMNS)
    assert {"trial_id", "step", "epoch", "lr", "c_t", "grad_norm", "forget_loss", "seconds"} <= set(HISTORY_COLUMNS)
    for columns in (TRIAL_COLUMNS, HISTORY_COLUMNS):
        assert len(set(columns)) == len(columns)


def report(trial_id: str, step: int, **more: object) -> dict[str, object]:
    return {"trial_id": trial_id, "step": step, **more}


def steps(ledger: Ledger) -> list[tuple[str, int]]:
    return [(row["trial_id"], int(row["step"])) for row in ledger.history.read()]


def test_a_report_says_when_it_was_made_and_its_updates_have_a_table_of_their_own(ledger: Ledger) -> None:
    before = time.time()
    ledger.add_report("00000", {"step": 3, "forget_loss": 1.0, "auto_lr": [{"step": 1, "eta": 0.5}]})
    ledger.write()
    (row,), (update,) = ledger.history.read(), ledger.auto_lr.read()
    assert (row["trial_id"], row["step"]) == ("00000", "3")
    assert before <= float(row["reported_at"]) <= time.time()
    assert (update["trial_id"], update["step"], update["eta"]) == ("00000", "1", "0.5")


def test_finished_trials_are_those_with_a_row_however_they_ended(ledger: Ledger) -> None:
    ledger.trials.append(
        {"trial_id": f"{number:05d}", "status": status}
        for number, status in enumerate(("finished", "stopped", "diverged", "failed"))
    )
    assert {row["trial_id"] for row in ledger.trials.read()} == {"00000", "00001", "00002", "00003"}


def test_mending_drops_the_history_that_will_be_written_again(ledger: Ledger) -> None:
    ledger.trials.append([{"trial_id": "00000", "status": "finished"}])
    for step in (2, 4, 6, 8):
        ledger.history.append(report(trial_id, step) for trial_id in ("00000", "00001", "00002"))

    ledger.mend({"00001": 4})

    assert [step for trial_id, step in steps(ledger) if trial_id == "00000"] == [2, 4, 6, 8]
    assert [step for trial_id, step in steps(ledger) if trial_id == "00001"] == [2, 4]
    assert [step for trial_id, step in steps(ledger) if trial_id == "00002"] == []


def test_mending_drops_the_rows_of_trials_that_run_again(ledger: Ledger) -> None:
    for trial_id, status in (("00000", "finished"), ("00001", "failed"), ("00002", "failed")):
        ledger.add_report(trial_id, {"step": 1, "epoch": 1.0})
        ledger.add_report(trial_id, {"step": 2, "epoch": 2.0})
        ledger.add_trial({"trial_id": trial_id, "status": status})
    ledger.write()
    ledger.mend({"00002": 1}, again={"00001", "00002"})
    assert [row["trial_id"] for row in ledger.trials.read()] == ["00000"]
    kept = [(row["trial_id"], row["step"]) for row in ledger.history.read()]
    assert kept == [("00000", "1"), ("00000", "2"), ("00002", "1")]


def test_the_log_of_auto_lr_is_mended_and_sorted_as_the_history_is(ledger: Ledger) -> None:
    ledger.trials.append([{"trial_id": "00001", "status": "finished"}])
    for step in (11, 1):
        ledger.auto_lr.append({"trial_id": trial_id, "step": step, "eta": 1e-4} for trial_id in ("00001", "00000"))
    ledger.mend({"00000": 5})
    ledger.sort()
    kept = [(row["trial_id"], row["step"]) for row in ledger.auto_lr.read()]
    assert kept == [("00000", "1"), ("00001", "1"), ("00001", "11")]


def test_mending_drops_the_report_a_trial_made_before_its_first_step(ledger: Ledger) -> None:
    """A trial that diverges at once reports step 0; killed before its row, it starts anew and reports it again."""
    ledger.history.append([report("00000", 0)])
    ledger.mend({})
    ledger.history.append([report("00000", 0)])
    assert steps(ledger) == [("00000", 0)]


def test_mending_cuts_torn_lines_so_that_appending_is_safe(ledger: Ledger) -> None:
    ledger.trials.append([{"trial_id": "00000", "status": "finished"}])
    ledger.history.append([report("00000", 1)])
    for path in (ledger.trials.path, ledger.history.path):
        with path.open("a") as file:
            file.write("00001,3f")

    ledger.mend({})
    ledger.trials.append([{"trial_id": "00002", "status": "failed"}])
    ledger.history.append([report("00002", 1)])

    assert [row["trial_id"] for row in ledger.trials.read()] == ["00000", "00002"]
    assert steps(ledger) == [("00000", 1), ("00002", 1)]


def test_mending_keeps_the_first_of_two_rows_of_a_trial(ledger: Ledger) -> None:
    ledger.trials.append({"trial_id": "00000", "status": "finished", "steps": steps} for steps in (10, 11))
    ledger.mend({})
    assert [(row["trial_id"], row["steps"]) for row in ledger.trials.read()] == [("00000", "10")]


def test_mending_leaves_the_rows_of_finished_trials_byte_for_byte(ledger: Ledger) -> None:
    ledger.trials.append(
        [
            {"trial_id": "00000", "status": "finished", "forget_loss": 1 / 3, "error": None},
            {"trial_id": "00001", "status": "failed", "error": 'ValueError: "a", b'},
        ]
    )
    before = ledger.trials.path.read_bytes()
    ledger.mend({})
    assert ledger.trials.path.read_bytes() == before


def test_mending_an_empty_folder_makes_a_table_without_trials(ledger: Ledger) -> None:
    """Where trials.csv is missing later on, it is lost."""
    ledger.mend({})
    assert [path.name for path in ledger.out.iterdir()] == ["trials.csv"]
    assert ledger.trials.read() == []


def test_sorting_orders_trials_by_id_and_history_by_step(ledger: Ledger) -> None:
    ledger.trials.append({"trial_id": trial_id} for trial_id in ("00010", "00002", "00001"))
    ledger.history.append(report(trial_id, step) for trial_id, step in (("00002", 10), ("00001", 9), ("00002", 2)))
    ledger.sort()
    assert [row["trial_id"] for row in ledger.trials.read()] == ["00001", "00002", "00010"]
    assert steps(ledger) == [("00001", 9), ("00002", 2), ("00002", 10)]


def test_a_mark_is_not_taken_for_one_in_a_file_that_got_the_same_inode(tmp_path: Path) -> None:
    log = CsvLog(tmp_path / "log.csv", ("name",), sync=False)
    log.append([{"name": "b"}])
    _, mark = log.read_on(Mark())
    log.rewrite([{"name": "a"}, {"name": "b"}])
    rows, after = log.read_on(replace(mark, inode=log.path.stat().st_ino))
    assert [row["name"] for row in rows] == ["a", "b"]
    assert log.read_on(after) == ([], after)
