"""Objectives and their scaling to costs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.tables.trade_off import Objective

ENTRY: dict[str, object] = {"name": "loss", "direction": "min", "low": 0.0, "high": 8.0}


def test_a_cost_is_0_at_the_best_and_1_at_the_worst_bound() -> None:
    small = Objective.from_dict(ENTRY)
    large = Objective.from_dict(ENTRY | {"direction": "max"})
    assert small.cost([0.0, 2.0, 8.0]).tolist() == [0.0, 0.25, 1.0]
    assert large.cost([0.0, 2.0, 8.0]).tolist() == [1.0, 0.75, 0.0]
    assert (small.worst, large.worst) == (8.0, 0.0)


def test_values_beyond_the_bounds_cost_what_the_bounds_cost() -> None:
    objective = Objective.from_dict(ENTRY)
    assert objective.cost([-3.0, 500.0, math.inf]).tolist() == [0.0, 1.0, 1.0]


def test_bounds_other_than_zero_shift_the_scale() -> None:
    assert Objective.from_dict(ENTRY | {"low": 2.0, "high": 4.0}).cost([2.0, 2.5, 4.0]).tolist() == [0.0, 0.25, 1.0]


def test_orienting_keeps_every_digit() -> None:
    values = np.array([0.1, np.nextafter(0.1, 1.0)])
    oriented = Objective.from_dict(ENTRY | {"direction": "max"}).oriented(values)
    assert oriented[1] < oriented[0]


def test_column_and_label_default_to_the_name() -> None:
    objective = Objective.from_dict(ENTRY)
    assert (objective.column, objective.label) == ("loss", "loss")
    assert Objective.from_dict(ENTRY | {"column": "loss_capped"}).column == "loss_capped"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"direction": "up"}, "direction is 'up', expected min or max"),
        ({"high": 0.0}, "not low < high"),
        ({"high": math.inf}, "not low < high"),
        ({"low": "none"}, "bounds that are no numbers"),
    ],
)
def test_a_wrong_entry_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        Objective.from_dict(ENTRY | change)


@pytest.mark.parametrize("key", ["name", "direction", "low", "high"])
def test_a_missing_entry_is_named(key: str) -> None:
    with pytest.raises(AnalysisError, match=f"has no '{key}'"):
        Objective.from_dict({name: value for name, value in ENTRY.items() if name != key})
