"""Parameters: which values they accept, which points a grid visits, and which definitions are refused."""

from __future__ import annotations

import math

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.parameters import Choice, Number, Parameter
from tests.facts import assert_names


@pytest.mark.parametrize(
    ("parameter", "inside", "outside"),
    [
        (Number("lr", 1e-5, 1e-3), [1e-5, 1e-3, 5e-4], [9e-6, 1.1e-3, math.nan, math.inf, "1e-4", None, True]),
        (Number("c", 0.0, 1.0), [0, 1, 0.5], [True, False, -1e-9]),
        (Number("c", 0.1, 0.99, log_to_one=True), [0.1, 0.99, 0.123456789012], [1 / 3, 1.0, 0.09]),
        (Number("epochs", 1, 5, integer=True), [1, 5, 3.0], [0, 6, 2.5, True, "3", None]),
        (Choice("auto_lr", ("off", "on")), ["off", "on"], [False, True, "Off", None]),
        (Choice("rank", (None, 8)), [None, 8, 8.0], [0, "8", 16]),
        (Choice("flag", (True, False)), [True, False], [1, 0]),
    ],
    ids=["float", "float with whole ends", "log to one", "int", "texts", "null and a number", "booleans"],
)
def test_a_parameter_accepts_the_values_inside_and_no_others(
    parameter: Parameter, inside: list[object], outside: list[object]
) -> None:
    assert [value for value in inside if not parameter.accepts(value)] == []
    assert [value for value in outside if parameter.accepts(value)] == []


def test_a_grid_visits_every_number_of_a_whole_range_up_to_a_thousand_and_otherwise_the_listed_points() -> None:
    assert Number("steps", 1, 1000, integer=True).points() == tuple(range(1, 1001))
    assert Number("steps", 1, 1001, integer=True).points() is None
    assert Number("steps", 1, 10**9, grid=(10, 100), integer=True).points() == (10, 100)
    assert Number("c", 0.0, 1.0).points() is None


@pytest.mark.parametrize(
    ("parameter", "problems"),
    [
        (Number("lr", -1.0, -2.0, log=True), [("low", "high", "-1 and -2"), ("logarithmic", "low", "-1")]),
        (Number("lr", 0.0, 1.0, grid=(0.5, 2.0)), [("grid", "[0, 1]", "2.0")]),
        (Number("lr", 1, 2.5, integer=True), [("low", "high", "whole numbers")]),  # type: ignore[arg-type]
        (Choice("lr", ()), [("one value",)]),
        (Number("lr", 0.5, 1.0, log=True, log_to_one=True), [("log", "log_to_one"), ("log_to_one", "high", "1")]),
        (Number("lr", 1 / 3, 0.9, log_to_one=True), [("log_to_one", "12 decimals")]),
        (Number("beta", 2.0, 1.0, key="lr.beta"), [("lr.beta", "2 and 1")]),
    ],
)
def test_every_problem_of_an_impossible_parameter_is_listed(
    parameter: Parameter, problems: list[tuple[str, ...]]
) -> None:
    found = parameter.problems()
    assert len(found) == len(problems)
    for problem, facts in zip(found, problems, strict=True):
        assert problem.startswith(f"{parameter.key}:")
        assert_names(problem, *facts)


def test_log_to_one_is_searched_as_the_logarithm_of_one_minus_the_value() -> None:
    c = Number("c", 0.1, 0.995, log_to_one=True, key="gdiff.c")
    searched = c.distribution()
    assert isinstance(searched, optuna.distributions.FloatDistribution)
    assert (searched.low, searched.high, searched.log) == (pytest.approx(0.005), pytest.approx(0.9), True)
    assert c.suggest(optuna.trial.FixedTrial({"1-gdiff.c": 0.25})) == 0.75


@given(st.floats(0.002, 0.99), st.floats(0.0, 1.0))
def test_a_value_of_log_to_one_survives_the_way_to_optuna_and_back(low: float, where: float) -> None:
    c = Number("c", round(low, 6), 0.998, log_to_one=True)
    searched = c.distribution()
    value = c.suggest(optuna.trial.FixedTrial({"1-c": searched.low + where * (searched.high - searched.low)}))
    assert c.accepts(value)
    assert c.suggest(optuna.trial.FixedTrial({"1-c": c.optuna_value(value)})) == value
