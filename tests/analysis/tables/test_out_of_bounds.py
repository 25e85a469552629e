"""A value outside its column's bounds is named, with its row; a loss above a random guess's is none."""

from __future__ import annotations

import math
import re

import pandas as pd
import pytest

from analysis.tables.columns import Columns
from analysis.tables.out_of_bounds import values_outside
from sweeper.store.columns import column_dictionary

COLUMNS = Columns.from_dict(column_dictionary(random_guess=8.0, unit="token"))


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("utility", [0.0, 1.0, 1.0 + 1e-9, math.nan], None),
        ("utility", [0.5, 71.3], "71.3 in b, expected from 0 to 1: write shares, not percent"),
        ("verbmem", [5.2, 90.0], r"5.2 in a and 1 more.*percent"),
        ("verbmem", [1.2, 0.7], r"1.2 in a, [^:]* 1$"),
        ("utility", [-0.2, 0.7], r"-0.2 in a, [^:]* 1$"),
        ("utility", [1.5, 710.0], r"1.5 in a and 1 more, [^:]* 1$"),
        ("retain_loss", [9.5, math.inf], None),
        ("retain_loss", [0.1, -0.5], r"-0.5 in b.*\b0$"),
        ("privleak", [1e6, -100.0], None),
        ("privleak", [-101.0, 0.0], r"-101 in a.*-100$"),
        ("privleak_distance", [50.0, 150.0], None),
        ("train_seconds", [-5.0, 1e9], None),
        ("nobody_described_it", [-5.0, 1e9], None),
    ],
)
def test_what_lies_outside_is_named_with_its_row(name: str, values: list[float], named: str | None) -> None:
    frame = pd.DataFrame({"trial_id": list("abcd")[: len(values)], name: values})
    found = [note.removeprefix(f"{name} is ") for note in values_outside(frame, COLUMNS)]
    assert len(found) == (named is not None)
    assert all(re.match(named or "", note) for note in found)


def test_every_column_has_its_note_and_text_or_a_table_without_rows_none() -> None:
    frame = pd.DataFrame({"trial_id": ["line 2"], "verbmem": [5.2], "utility": [71.3]})
    assert [note.split()[0] for note in values_outside(frame, COLUMNS)] == ["verbmem", "utility"]
    assert values_outside(frame.iloc[:0], COLUMNS) == []
    assert values_outside(pd.DataFrame({"trial_id": ["a"], "utility": ["5%"]}), COLUMNS) == []
