"""Parameters: which values they accept, what a grid visits, and what is said about impossible ones."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.parameters import Choice, Number, Parameter, parameter_from_dict
from search_spaces.values import plain_name


@pytest.mark.parametrize(
    ("parameter", "inside", "outside"),
    [
        (Number("lr", 1e-5, 1e-3), [1e-5, 1e-3, 5e-4], [9e-6, 1.1e-3, math.nan, math.inf, "1e-4", None, True]),
        (Number("c", 0.0, 1.0), [0, 1, 0.5], [True, False, -1e-9]),
        (Number("c", 0.1, 0.99, log_to_one=True), [0.1, 0.99, 0.123456789012], [1 / 3, 1.0, 0.09]),
        (Number("epochs", 1, 5, whole=True), [1, 5, 3.0], [0, 6, 2.5, True, "3", None]),
        (Choice("auto_lr", ("off", "on")), ["off", "on"], [False, True, "Off", None]),
        (Choice("rank", (None, 8)), [None, 8, 8.0], [0, "8", 16]),
        (Choice("flag", (True, False)), [True, False], [1, 0]),
    ],
    ids=["float", "float with whole ends", "log to one", "int", "texts", "null and a number", "booleans"],
)
def test_a_parameter_accepts_what_lies_in_it_and_nothing_else(
    parameter: Parameter, inside: list[object], outside: list[object]
) -> None:
    assert [value for value in inside if not parameter.accepts(value)] == []
    assert [value for value in outside if parameter.accepts(value)] == []


def test_the_key_is_the_name_unless_given() -> None:
    assert Number("lr", 0.1, 1.0).key == "lr"
    assert Number("beta", 0.1, 1.0, key="npo.beta").key == "npo.beta"


def test_what_follows_the_last_dot_of_a_key_is_the_plain_name() -> None:
    assert [plain_name(key) for key in ("npo.beta", "lr", "gradvac.ema_beta")] == ["beta", "lr", "ema_beta"]


def test_a_whole_range_is_visited_number_by_number_up_to_a_thousand() -> None:
    assert Number("epochs", 3, 6, whole=True).points() == (3, 4, 5, 6)
    assert len(Number("steps", 1, 1000, whole=True).points() or ()) == 1000
    assert Number("steps", 1, 1001, whole=True).points() is None
    assert Number("steps", 1, 10**9, grid=(10, 100), whole=True).points() == (10, 100)


def test_a_continuous_range_is_visited_only_where_points_are_given() -> None:
    assert Number("c", 0.0, 1.0).points() is None
    assert Number("c", 0.0, 1.0, grid=(0.1, 0.9)).points() == (0.1, 0.9)


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        (Number("lr", 1.0, 1.0), ["lr: low must be less than high, got 1 and 1"]),
        (Number("lr", 0.0, 1.0, log=True), ["lr: a logarithmic range must have low greater than 0, got 0"]),
        (
            Number("lr", -1.0, -2.0, log=True),
            [
                "lr: low must be less than high, got -1 and -2",
                "lr: a logarithmic range must have low greater than 0, got -1",
            ],
        ),
        (Number("lr", 0.0, math.inf), ["lr: low and high must be finite numbers, got 0.0 and inf"]),
        (Number("c", 0.0, 1.0, grid=(0.5, 2.0)), ["c: grid points must lie in [0, 1], got 2.0"]),
        (Number("c", 0.0, 1.0, grid=(0.5, 0.5)), ["c: the grid point 0.5 is there twice"]),
        (Number("epochs", 1, 2.5, whole=True), ["epochs: low, high and grid must be whole numbers"]),  # type: ignore[arg-type]
        (Choice("c", ()), ["c: needs at least one value"]),
        (Choice("c", (0.1, 0.1)), ["c: the value 0.1 is there twice"]),
        (Choice("c", (1, True)), ["c: the value True is there twice"]),
        (
            Choice("c", (math.nan,)),
            ["c: a value must be a text, a finite number, true, false or null, got nan"],
        ),
        (
            Number("c", 0.5, 1.0, log=True, log_to_one=True),
            [
                "c: log and log_to_one exclude each other",
                "c: a range with log_to_one must have high less than 1, got 1",
            ],
        ),
        (Number("c", 1 / 3, 0.9, log_to_one=True), ["c: numbers with log_to_one have at most 12 decimals"]),
        (Number("beta", 2.0, 1.0, key="npo.beta"), ["npo.beta: low must be less than high, got 2 and 1"]),
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
        "log to one, and more",
        "log to one with many decimals",
        "named by key",
    ],
)
def test_impossible_parameters_are_described(parameter: Parameter, said: list[str]) -> None:
    assert parameter.problems() == said


def test_log_to_one_is_uniform_in_the_logarithm_of_the_rest() -> None:
    c = Number("c", 0.1, 0.995, log_to_one=True, key="gdiff.c")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    trials = [study.ask() for _ in range(400)]
    rest = np.array([1.0 - float(str(c.suggest(trial))) for trial in trials])
    assert np.allclose([trial.params["1-gdiff.c"] for trial in trials], rest, rtol=0, atol=1e-12)
    uniform = scipy.stats.uniform(math.log(0.005), math.log(0.9 / 0.005))
    assert scipy.stats.kstest(np.log(rest), uniform.cdf).pvalue > 0.01


@given(st.floats(0.002, 0.99), st.floats(0.0, 1.0))
def test_a_value_of_log_to_one_survives_the_way_to_optuna_and_back(low: float, where: float) -> None:
    c = Number("c", round(low, 6), 0.998, log_to_one=True)
    searched = c.distribution()
    value = c.suggest(optuna.trial.FixedTrial({"1-c": searched.low + where * (searched.high - searched.low)}))
    assert c.accepts(value)
    assert c.suggest(optuna.trial.FixedTrial({"1-c": c.stored(value)})) == value


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
