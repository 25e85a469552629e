"""What the options that a method declares promise, whether of an objective or of a weighting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainables.options import Option, defaults


def check_options(options: Sequence[Option]) -> None:
    """Each accepts its default and its bounds, and nothing below.

    Raises:
        AssertionError: one does not; the message says which.
    """
    for option in options:
        for value in (option.default, *_bounds(option)):
            assert option.problem(value) is None, f"its own value is refused: {option.problem(value)}"
        assert option.problem(option.low - 1.0), f"{option.name} accepts {option.low - 1.0:g}, below its lowest value"


def option_values(options: Sequence[Option]) -> Iterator[dict[str, float]]:
    """The defaults, and then the bounds of each option in turn beside the others' defaults."""
    usual = defaults(options)
    yield usual
    yield from (usual | {option.name: value} for option in options for value in _bounds(option))


def _bounds(option: Option) -> tuple[float, float]:
    """The lowest value and the highest one, or 1000 where there is no such."""
    return option.low + 1e-9 if option.low_open else option.low, min(option.high, 1e3)
