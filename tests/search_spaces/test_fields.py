"""A field accepts what it describes and says plainly what is wrong with anything else."""

from __future__ import annotations

import math

import pytest

from search_spaces.fields import Field

CLOSED = Field("c", 0.9, "share of the retain task", low=0.0, high=1.0)
OPEN = Field("beta", 0.1, "inverse temperature", above=0.0, high=100.0)
UNBOUNDED = Field("alpha", 1.5, "strength", low=-1.0)
WHOLE = Field("layer", -1.0, "which block", low=-1.0, high=40.0, kind=int)
COUNT = Field("max_length", 512, "tokens", low=8, kind=int, unit="tokens", flag="--max-length")
POSITIVE = Field("scale", 1.0, "length", above=0.0)
ANY = Field("x", 1.0, "anything finite")
CAP = Field("d_growth", None, "cap", optional=True, low=1.0, flag="--growth-rate")
TEXT = Field("method", "gdiff", "its name", kind=str)
SWITCH = Field("gradient_checkpointing", False, "trade", kind=bool)
CHOICE = Field("auto_lr", "off", "on or off", kind=str, choices=lambda: ("on", "off"))
NAMES = Field("metrics", (), "several", kind=str, many=True)


@pytest.mark.parametrize(
    ("item", "value"),
    [
        (CLOSED, 0.0),
        (CLOSED, 1.0),
        (CLOSED, 0.5),
        (OPEN, 1e-300),
        (OPEN, 100.0),
        (UNBOUNDED, -1.0),
        (UNBOUNDED, 1e300),
        (WHOLE, 7),
        (WHOLE, 7.0),
        (COUNT, 8),
        (ANY, -1e300),
        (CAP, None),
        (CAP, 1),
        (TEXT, "npo"),
        (SWITCH, False),
        (CHOICE, "on"),
        (NAMES, ()),
        (NAMES, ("utility", "verbmem")),
    ],
)
def test_values_of_the_kind_the_interval_and_its_closed_ends_are_accepted(item: Field, value: object) -> None:
    assert item.problem(value) is None


@pytest.mark.parametrize(
    ("item", "value", "said"),
    [
        (CLOSED, -0.1, "c must be in [0, 1], got -0.1"),
        (CLOSED, 1.5, "c must be in [0, 1], got 1.5"),
        (CLOSED, math.nan, "c must be in [0, 1], got nan"),
        (OPEN, 0.0, "beta must be in ]0, 100], got 0"),
        (OPEN, 101.0, "beta must be in ]0, 100], got 101"),
        (UNBOUNDED, -1.25, "alpha must be a finite number, at least -1, got -1.25"),
        (UNBOUNDED, math.inf, "alpha must be a finite number, at least -1, got inf"),
        (WHOLE, 7.5, "layer must be a whole number, got 7.5"),
        (WHOLE, 41.5, "layer must be in [-1, 40], got 41.5"),
        (WHOLE, math.nan, "layer must be in [-1, 40], got nan"),
        (COUNT, 7, "max_length must be at least 8 tokens, got 7"),
        (COUNT, 8.5, "max_length must be a whole number, got 8.5"),
        (COUNT, [8], "max_length must be a whole number, got [8]"),
        (POSITIVE, 0.0, "scale must be a finite number greater than 0, got 0"),
        (POSITIVE, math.nan, "scale must be a finite number greater than 0, got nan"),
        (ANY, math.inf, "x must be a finite number, got inf"),
        (ANY, "1", "x must be a number, got '1'"),
        (ANY, True, "x must be a number, got True"),
        (ANY, None, "x must be a number, got null"),
        (CAP, 0.5, "d_growth (--growth-rate) must be a finite number, at least 1, got 0.5"),
        (CAP, "big", "d_growth (--growth-rate) must be a number or null, got 'big'"),
        (TEXT, 5, "method must be a text, got 5"),
        (SWITCH, 1, "gradient_checkpointing must be true or false, got 1"),
        (CHOICE, "maybe", "unknown auto_lr 'maybe': expected one of on, off"),
        (CHOICE, ["on"], "unknown auto_lr '['on']': expected one of on, off"),
        (NAMES, ("utility", 1), "metrics must be names, got ('utility', 1)"),
    ],
)
def test_anything_else_is_refused_with_name_bound_and_value(item: Field, value: object, said: str) -> None:
    assert item.problem(value) == said


@pytest.mark.parametrize(
    ("item", "value", "typed"),
    [(WHOLE, 7.0, 7), (OPEN, 1, 1.0), (CAP, None, None), (TEXT, "a", "a"), (NAMES, ["a"], ("a",))],
)
def test_a_value_is_read_as_its_own_type(item: Field, value: object, typed: object) -> None:
    found = item.typed(value)
    assert (found, type(found)) == (typed, type(typed))


def test_a_field_has_an_effect_where_all_it_waits_for_holds() -> None:
    item = Field("batches", 4, "of a probe", when={"auto_lr": ("on",), "probe": ("fresh", "both")})
    assert item.has_effect({"auto_lr": "on", "probe": "both"})
    assert not item.has_effect({"auto_lr": "off", "probe": "both"})
    assert not item.has_effect({"auto_lr": "on", "probe": "same"})
