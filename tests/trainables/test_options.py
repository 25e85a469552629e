"""An option accepts what lies in its interval and says plainly what is wrong with anything else."""

from __future__ import annotations

import math

import pytest

from search_spaces.fields import Field

CLOSED = Option("c", 0.9, 0.0, 1.0, "share of the retain task")
OPEN = Option("beta", 0.1, 0.0, 100.0, "inverse temperature", low_open=True)
UNBOUNDED = Option("alpha", 1.5, -1.0, math.inf, "strength")
WHOLE = Option("layer", -1.0, -1.0, 40.0, "which block", whole=True)
POSITIVE = Option("scale", 1.0, 0.0, math.inf, "length", low_open=True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (CLOSED, 0.0),
        (CLOSED, 1.0),
        (CLOSED, 0.5),
        (OPEN, 1e-300),
        (OPEN, 100.0),
        (UNBOUNDED, -1.0),
        (UNBOUNDED, 1e300),
        (WHOLE, 7),
    ],
)
def test_values_of_the_interval_and_its_closed_ends_are_accepted(option: Option, value: float) -> None:
    assert option.problem(value) is None


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        (CLOSED, -0.1, "c must be in [0, 1], got -0.1"),
        (CLOSED, 1.5, "c must be in [0, 1], got 1.5"),
        (CLOSED, math.nan, "c must be in [0, 1], got nan"),
        (OPEN, 0.0, "beta must be in ]0, 100], got 0"),
        (OPEN, 101.0, "beta must be in ]0, 100], got 101"),
        (UNBOUNDED, -1.25, "alpha must be at least -1, got -1.25"),
        (UNBOUNDED, math.inf, "alpha must be at least -1, got inf"),
        (WHOLE, 7.5, "layer must be a whole number, got 7.5"),
        (WHOLE, 41.5, "layer must be in [-1, 40], got 41.5"),
        (WHOLE, math.nan, "layer must be in [-1, 40], got nan"),
        (POSITIVE, 0.0, "scale must be greater than 0, got 0"),
        (POSITIVE, math.nan, "scale must be greater than 0, got nan"),
    ],
)
def test_anything_else_is_refused_with_name_bound_and_value(option: Option, value: float, said: str) -> None:
    assert option.problem(value) == said
