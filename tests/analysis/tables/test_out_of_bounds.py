"""A value outside its column's bounds is named, with its row; a loss above a random guess's is none."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from analysis.tables.columns import Columns
from analysis.tables.out_of_bounds import values_outside
from sweeper.columns import column_dictionary

COLUMNS = Columns.from_dict(column_dictionary(random_guess=8.0, unit="token"))


@pytest.mark.parametrize(
    ("name", "values", "note"),
    [
        ("utility", [0.0, 1.0, 1.0 + 1e-9, math.nan], None),
        ("utility", [0.5, 71.3], "utility is 71.3 in b, expected from 0 to 1: write shares, not percent"),
        ("verbmem", [5.2, 90.0], "verbmem is 5.2 in a and 1 more, expected from 0 to 1: write shares, not percent"),
        ("verbmem", [1.2, 0.7], "verbmem is 1.2 in a, expected from 0 to 1"),
        ("utility", [-0.2, 0.7], "utility is -0.2 in a, expected from 0 to 1"),
        ("utility", [1.5, 710.0], "utility is 1.5 in a and 1 more, expected from 0 to 1"),
        ("retain_loss", [9.5, math.inf], None),
        ("retain_loss", [0.1, -0.5], "retain_loss is -0.5 in b, expected at least 0"),
        ("privleak", [1e6, -100.0], None),
        ("privleak", [-101.0, 0.0], "privleak is -101 in a, expected at least -100"),
        ("privleak_distance", [50.0, 150.0], None),
        ("train_seconds", [-5.0, 1e9], None),
        ("nobody_described_it", [-5.0, 1e9], None),
    ],
)
def test_what_lies_outside_is_named_with_its_row(name: str, values: list[float], note: str | None) -> None:
    frame = pd.DataFrame({"trial_id": list("abcd")[: len(values)], name: values})
    assert values_outside(frame, COLUMNS) == ([note] if note else [])


def test_every_column_has_its_note_and_a_table_without_rows_none() -> None:
    frame = pd.DataFrame({"trial_id": ["line 2"], "verbmem": [5.2], "utility": [71.3]})
    assert [note.split()[0] for note in values_outside(frame, COLUMNS)] == ["verbmem", "utility"]
    assert values_outside(frame.iloc[:0], COLUMNS) == []


def test_text_is_no_measurement() -> None:
    assert values_outside(pd.DataFrame({"trial_id": ["a"], "utility": ["5%"]}), COLUMNS) == []
