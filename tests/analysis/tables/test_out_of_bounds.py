"""A value outside its column's bounds is named, with its row; a loss above a random guess's is none."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from analysis.tables.columns import Columns
from analysis.tables.out_of_bounds import values_outside
from sweeper.store.columns import column_dictionary

COLUMNS = Columns.from_dict(column_dictionary(random_guess=8.0, unit="token"))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("utility", [0.0, 1.0, 1.0 + 1e-9, math.nan], None),
        ("utility", [0.5, 71.3], (71.3, "b", 1, True, (0.0, 1.0))),
        ("verbmem", [5.2, 90.0], (5.2, "a", 2, True, (0.0, 1.0))),
        ("verbmem", [1.2, 0.7], (1.2, "a", 1, False, (0.0, 1.0))),
        ("utility", [-0.2, 0.7], (-0.2, "a", 1, False, (0.0, 1.0))),
        ("utility", [1.5, 710.0], (1.5, "a", 2, False, (0.0, 1.0))),
        ("retain_loss", [9.5, math.inf], None),
        ("retain_loss", [0.1, -0.5], (-0.5, "b", 1, False, (0.0, None))),
        ("privleak", [1e6, -100.0], None),
        ("privleak", [-101.0, 0.0], (-101.0, "a", 1, False, (-100.0, None))),
        ("privleak_distance", [50.0, 150.0], None),
        ("train_seconds", [-5.0, 1e9], None),
        ("nobody_described_it", [-5.0, 1e9], None),
    ],
)
def test_what_lies_outside_is_named_with_its_row(
    name: str, values: list[float], expected: tuple[object, ...] | None
) -> None:
    frame = pd.DataFrame({"trial_id": list("abcd")[: len(values)], name: values})
    found = [tuple(dict(note.facts).values()) for note in values_outside(frame, COLUMNS)]
    assert found == ([] if expected is None else [(name, *expected)])


def test_every_column_has_its_note_and_text_or_a_table_without_rows_none() -> None:
    frame = pd.DataFrame({"trial_id": ["line 2"], "verbmem": [5.2], "utility": [71.3]})
    assert [dict(note.facts)["name"] for note in values_outside(frame, COLUMNS)] == ["verbmem", "utility"]
    assert values_outside(frame.iloc[:0], COLUMNS) == []
    assert values_outside(pd.DataFrame({"trial_id": ["a"], "utility": ["5%"]}), COLUMNS) == []
