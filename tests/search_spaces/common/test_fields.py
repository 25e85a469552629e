"""A field accepts the values that it describes, and names the problem with any other value."""

from __future__ import annotations

import pytest

from search_spaces.common.fields import Field
from tests.facts import assert_names

CLOSED = Field("c", 0.9, "share of the retain task", low=0.0, high=1.0)
OPEN = Field("beta", 0.1, "inverse temperature", above=0.0, high=100.0)
WHOLE = Field("layer", -1.0, "which block", low=-1.0, high=40.0, kind=int)
COUNT = Field("max_length", 512, "tokens", low=8, kind=int, unit="tokens", flag="--max-length")
CAP = Field("d_growth", None, "cap", optional=True, low=1.0, flag="--growth-rate")
CHOICE = Field("auto_lr", "off", "on or off", kind=str, choices=lambda: ("on", "off"))
NAMES = Field("metrics", (), "several", kind=str, many=True)


@pytest.mark.parametrize(
    ("item", "values", "other", "facts"),
    [
        (CLOSED, (0.0, 1.0, 0.5), -0.1, ("c", "[0, 1]", "-0.1")),
        (OPEN, (1e-300, 100.0), 0.0, ("beta", "(0, 100]", "got 0")),
        (WHOLE, (7, 7.0), 7.5, ("layer", "whole number", "7.5")),
        (COUNT, (8,), 7, ("max_length", "at least 8 tokens", "got 7")),
        (CAP, (None, 1), 0.5, ("d_growth (--growth-rate)", "at least 1", "0.5")),
        (CHOICE, ("on",), "maybe", ("auto_lr", "'maybe'", "on, off")),
        (NAMES, ((), ("utility", "verbmem")), ("utility", 1), ("metrics", "('utility', 1)")),
    ],
)
def test_another_value_is_refused_with_name_bound_and_value(
    item: Field, values: tuple[object, ...], other: object, facts: tuple[str, ...]
) -> None:
    assert [value for value in values if item.problem(value)] == []
    assert_names(item.problem(other), *facts)


@pytest.mark.parametrize(
    ("item", "value", "typed"),
    [(WHOLE, 7.0, 7), (OPEN, 1, 1.0), (CAP, None, None), (NAMES, ["a"], ("a",))],
)
def test_a_value_is_read_as_its_own_type(item: Field, value: object, typed: object) -> None:
    found = item.convert(value)
    assert (found, type(found)) == (typed, type(typed))


def test_a_field_has_an_effect_if_all_its_conditions_hold() -> None:
    item = Field("batches", 4, "of a probe", when={"auto_lr": ("on",), "probe": ("fresh", "both")})
    found = [item.has_effect({"auto_lr": on, "probe": probe}) for on in ("on", "off") for probe in ("both", "same")]
    assert found == [True, False, False, False]
