"""Values outside the bounds of their column."""

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
        ("utility", [-0.2, 0.7], (-0.2, "a", 1, False, (0.0, 1.0))),
        ("retain_loss", [9.5, math.inf], None),
        ("retain_loss", [0.1, -0.5], (-0.5, "b", 1, False, (0.0, None))),
        ("privleak", [-101.0, 0.0], (-101.0, "a", 1, False, (-100.0, None))),
        ("privleak_distance", [50.0, 150.0], None),
        ("nobody_described_it", [-5.0, 1e9], None),
        ("utility", ["5%"], None),
    ],
)
def test_values_outside_their_bounds_are_named_with_their_row(
    name: str, values: list[object], expected: tuple[object, ...] | None
) -> None:
    frame = pd.DataFrame({"trial_id": list("abcd")[: len(values)], name: values})
    found = [tuple(dict(note.facts).values()) for note in values_outside(frame, COLUMNS)]
    assert found == ([] if expected is None else [(name, *expected)])
