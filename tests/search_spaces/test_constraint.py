"""A threshold is parsed and printed, and is met, missed, or unknown if a number is missing."""

from __future__ import annotations

import math

import pytest

from search_spaces.constraint import Constraint, ConstraintError, all_met, parse_constraint


def test_a_written_threshold_is_read_back() -> None:
    for text, expected in (
        (" verbmem < 1e-1 ", Constraint("verbmem", "<", 0.1)),
        ("utility>=70%", Constraint("utility", ">=", 0.7, relative=True)),
        ("retain_loss<=-2", Constraint("retain_loss", "<=", -2.0)),
    ):
        assert parse_constraint(text) == expected == parse_constraint(str(expected))


@pytest.mark.parametrize(
    "text", ["", "utility", "utility=0.7", "utility>=", "utility>=x", ">=1", "a>=nan", "a<inf", "a>=1%%"]
)
def test_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConstraintError, match=f"'{text}'"):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("text", "value", "baseline", "met"),
    [
        ("utility>=0.7", 0.7, None, True),
        ("utility>0.7", 0.7, None, False),
        ("verbmem<=0.1", 0.1, None, True),
        ("utility>=70%", 0.5, 0.8, False),
        ("utility>=70%", 0.5, None, None),
        ("utility>=70%", 0.0, 0.0, None),
        ("utility>=0.7", None, 0.8, None),
        ("utility>=0.7", math.nan, 0.8, None),
    ],
)
def test_met_missed_or_unknown(text: str, value: float | None, baseline: float | None, met: bool | None) -> None:
    assert parse_constraint(text).met(value, baseline) is met


def test_the_violation_is_the_distance_from_the_bound_in_the_metrics_unit() -> None:
    assert parse_constraint("utility>=70%").violation(0.5, 0.8) == pytest.approx(0.06)
    assert parse_constraint("verbmem<=0.1").violation(0.3) == pytest.approx(0.2)


def test_all_are_met_if_each_is_met_and_unknown_if_one_is_unknown_and_none_is_missed() -> None:
    verdicts = ([], [None], [True, None], [False, None], [True, False], [True], [True, True])
    assert [all_met(iter(each)) for each in verdicts] == [None, None, None, False, False, True, True]
