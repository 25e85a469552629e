"""Objectives and their scaling to costs."""

from __future__ import annotations

import math

import pytest

from analysis.errors import AnalysisError
from analysis.tables.trade_off import Objective

ENTRY: dict[str, object] = {"name": "loss", "direction": "min", "low": 0.0, "high": 8.0}


def test_a_cost_is_0_at_the_best_and_1_at_the_worst_bound() -> None:
    small = Objective.from_dict(ENTRY)
    large = Objective.from_dict(ENTRY | {"direction": "max"})
    assert small.cost([0.0, 2.0, 8.0]).tolist() == [0.0, 0.25, 1.0]
    assert large.cost([0.0, 2.0, 8.0]).tolist() == [1.0, 0.75, 0.0]
    assert (small.worst, large.worst, small.column, small.label) == (8.0, 0.0, "loss", "loss")
    assert large.oriented([0.1, 8.0]).tolist() == [-0.1, -8.0]
    assert small.cost([-3.0, 500.0, math.inf]).tolist() == [0.0, 1.0, 1.0]
    assert Objective.from_dict(ENTRY | {"low": 2.0, "high": 4.0}).cost([2.0, 2.5, 4.0]).tolist() == [0.0, 0.25, 1.0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"direction": "up"}, "direction is 'up'.*min or max"),
        ({"high": 0.0}, "low < high"),
        ({"high": math.inf}, "low < high"),
        ({"low": "none"}, "bounds"),
        *(({key: None}, f"'{key}'") for key in ("name", "direction", "low", "high")),
    ],
)
def test_a_wrong_or_missing_entry_is_refused(change: dict[str, object], named: str) -> None:
    with pytest.raises(AnalysisError, match=named):
        Objective.from_dict({key: value for key, value in (ENTRY | change).items() if value is not None})
