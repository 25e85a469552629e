"""Checks of the options that an objective or a weighting declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from search_spaces.common.fields import Field, defaults


def check_options(options: Sequence[Field]) -> None:
    """Check that each option accepts its default and its bounds."""
    for option in options:
        for value in (option.default, *_bounds(option)):
            assert option.problem(value) is None, (
                f"option {option.name} does not accept its default or bound: {option.problem(value)}"
            )


def option_values(options: Sequence[Field]) -> Iterator[dict[str, float]]:
    """Yield the defaults. Then, for each bound of each option, yield the defaults with the option at this bound."""
    default_values = defaults(options)
    yield default_values
    yield from (default_values | {option.name: value} for option in options for value in _bounds(option))


def _bounds(option: Field) -> tuple[float, float]:
    """Return the lowest and the highest valid value of an option. The highest value is at most 1000."""
    lowest = option.above + 1e-9 if option.above > option.low else option.low
    return lowest, min(option.high, 1e3)
