"""Parameters: which values they accept, what a grid visits, and what is said about impossible ones."""

from __future__ import annotations

import math

import pytest

from search_spaces import Choice, Float, Int
from search_spaces.parameters import Parameter, parameter_from_dict
from search_spaces.values import plain_name


@pytest.mark.parametrize(
    ("parameter", "inside", "outside"),
    [
        (Float("lr", 1e-5, 1e-3), [1e-5, 1e-3, 5e-4], [9e-6, 1.1e-3, math.nan, math.inf, "1e-4", None, True]),
        (Float("c", 0.0, 1.0), [0, 1, 0.5], [True, False, -1e-9]),
        (Int("epochs", 1, 5), [1, 5, 3.0], [0, 6, 2.5, True, "3", None]),
        (Choice("auto_lr", ("off", "on")), ["off", "on"], [False, True, "Off", None]),
        (Choice("rank", (None, 8)), [None, 8, 8.0], [0, "8", 16]),
        (Choice("flag", (True, False)), [True, False], [1, 0]),
    ],
    ids=["float", "float with whole ends", "int", "texts", "null and a number", "booleans"],
)
def test_a_parameter_accepts_what_lies_in_it_and_nothing_else(
    parameter: Parameter, inside: list[object], outside: list[object]
) -> None:
    assert [value for value in inside if not parameter.accepts(value)] == []
    assert [value for value in outside if parameter.accepts(value)] == []


def test_the_key_is_the_name_unless_given() -> None:
    assert Float("lr", 0.1, 1.0).key == "lr"
    assert Float("beta", 0.1, 1.0, key="npo.beta").key == "npo.beta"


def test_what_follows_the_last_dot_of_a_key_is_the_plain_name() -> None:
    assert [plain_name(key) for key in ("npo.beta", "lr", "gradvac.ema_beta")] == ["beta", "lr", "ema_beta"]


def test_a_whole_range_is_visited_number_by_number_up_to_a_thousand() -> None:
    assert Int("epochs", 3, 6).points() == (3, 4, 5, 6)
    assert len(Int("steps", 1, 1000).points() or ()) == 1000
    assert Int("steps", 1, 1001).points() is None
    assert Int("steps", 1, 10**9, grid=(10, 100)).points() == (10, 100)


def test_a_continuous_range_is_visited_only_where_points_are_given() -> None:
    assert Float("c", 0.0, 1.0).points() is None
    assert Float("c", 0.0, 1.0, grid=(0.1, 0.9)).points() == (0.1, 0.9)


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        (Float("lr", 1.0, 1.0), ["lr: low must be less than high, got 1 and 1"]),
        (Float("lr", 0.0, 1.0, log=True), ["lr: a logarithmic range must have low greater than 0, got 0"]),
        (
            Float("lr", -1.0, -2.0, log=True),
            [
                "lr: low must be less than high, got -1 and -2",
                "lr: a logarithmic range must have low greater than 0, got -1",
            ],
        ),
        (Float("lr", 0.0, math.inf), ["lr: low and high must be finite numbers, got 0.0 and inf"]),
        (Float("c", 0.0, 1.0, grid=(0.5, 2.0)), ["c: grid points must lie in [0, 1], got 2.0"]),
        (Float("c", 0.0, 1.0, grid=(0.5, 0.5)), ["c: the grid point 0.5 is there twice"]),
        (Int("epochs", 1, 2.5), ["epochs: low, high and grid must be whole numbers"]),  # type: ignore[arg-type]
        (Choice("c", ()), ["c: needs at least one value"]),
        (Choice("c", (0.1, 0.1)), ["c: the value 0.1 is there twice"]),
        (Choice("c", (1, True)), ["c: the value True is there twice"]),
        (
            Choice("c", (math.nan,)),
            ["c: a value must be a text, a finite number, true, false or null, got nan"],
        ),
        (Float("beta", 2.0, 1.0, key="npo.beta"), ["npo.beta: low must be less than high, got 2 and 1"]),
    ],
    ids=[
        "one point",
        "logarithm of zero",
        "two mistakes",
        "infinite",
        "grid outside",
        "grid point twice",
        "fraction in a whole range",
        "no values",
        "value twice",
        "1 and true",
        "nan",
        "named by key",
    ],
)
def test_impossible_parameters_are_described(parameter: Parameter, said: list[str]) -> None:
    assert parameter.problems() == said


@pytest.mark.parametrize(
    "stored",
    [
        {"name": "lr", "low": 0.1, "high": 1.0},
        {"type": "double", "name": "lr", "low": 0.1, "high": 1.0},
        {"type": "float", "name": "lr"},
        {"type": "float", "name": "lr", "low": 0.1, "high": 1.0, "step": 0.1},
        {"type": "choice", "name": "lr", "values": 3},
        {"type": "choice", "name": "lr", "values": [3], "when": ["method"]},
    ],
    ids=["no type", "unknown type", "missing range", "unknown field", "values no list", "condition no mapping"],
)
def test_a_damaged_stored_parameter_is_refused_in_a_sentence(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"needs a type, one of float, int, choice|this is no \w+ parameter"):
        parameter_from_dict(stored)
