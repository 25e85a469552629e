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
    assert small.cost([-3.0, 500.0, math.inf]).tolist() == [0.0, 1.0, 1.0], "the bounds' own costs beyond them"
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
