"""The tables of a sweep contain only whole rows, even after a kill or on a full disk."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from sweeper.store.tables import CsvTable, ResultTables

COLUMNS = ("trial_id", "step", "value")


@pytest.fixture
def log(tmp_path: Path) -> CsvTable:
    return CsvTable(tmp_path / "log.csv", COLUMNS)


def ids(log: CsvTable) -> list[str]:
    return [row["trial_id"] for row in log.read()]


def test_appended_rows_are_read_back_in_order_as_by_the_standard_library(log: CsvTable) -> None:
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


def test_missing_values_are_empty_and_others_are_plain(log: CsvTable) -> None:
    values = (None, math.nan, np.float64("nan"), 1 / 3, 0.0, 5e-324, -math.inf, False, np.float32(0.5))
    log.append({"trial_id": "00000", "value": value} for value in values)
    cells = ["", "", "", "0.3333333333333333", "0.0", "5e-324", "-inf", "False", "0.5"]
    assert [row["value"] for row in log.read()] == cells


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


def test_a_single_run_that_continues_loses_the_rows_after_its_state_and_torn_lines(tmp_path: Path) -> None:
    tables = ResultTables(tmp_path)
    logs = (tables.history, tables.auto_lr)
    for step in (0, 2, 4, 6):
        for log in logs:
            log.append([{"trial_id": "00000", "step": step}])
    with tables.history.path.open("a") as file:
        file.write("00000,3f")  # torn
    for last, steps in ((4, ["0", "2", "4"]), (-1, [])):
        tables.truncate(last)
        assert [[row["step"] for row in log.read()] for log in logs] == [steps, steps]
    assert (tables.trials.path.is_file(), tables.trials.read()) == (True, [])
