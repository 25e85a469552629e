"""The search space that rows of a table were taken from, and the configuration each of them tells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from search_spaces.fields import LOG, LOG_TO_ONE
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space
from search_spaces.values import Value
from sweeper.search.archive import number
from sweeper.store.columns import PARAMETERS
from trainables.methods import OPTIONS

Cells = Mapping[str, str]
_NOT_SEARCHED = ("method", "seed", "epochs", "target_key")


def space_of(rows: Sequence[Cells]) -> Space:
    """What varies in the rows: learning rates and methods' options on the scale they are searched on, the rest as a
    choice of the values that are there."""
    methods = tuple(dict.fromkeys(row["method"] for row in rows))
    parameters: list[Parameter] = [Choice("method", methods)]
    for name in PARAMETERS:
        if name in _NOT_SEARCHED or name not in rows[0]:
            continue
        values = dict.fromkeys(row[name] for row in rows if row[name] != "")
        if len(values) < 2:
            continue
        having = {row["method"] for row in rows if row[name] != ""}
        when = {} if len(having) == len(methods) else {"method": tuple(name for name in methods if name in having)}
        numbers = sorted({number(value) for value in values})
        scale = LOG if name == "lr" else _scale_of(name)
        if scale is None:
            parameters.append(Choice(name, tuple(_plain(value) for value in values), when=when))
            continue
        log, to_one, ends = scale == LOG, scale == LOG_TO_ONE, (numbers[0], numbers[-1])
        parameters.append(Number(name, *ends, log=log, log_to_one=to_one, when=when, grid=tuple(numbers)))
    return Space.of(parameters)


def _scale_of(name: str) -> str | None:
    """The scale of a method's option; None for what is no number on a scale."""
    ranges = [item.range for item in OPTIONS.values() if item.name == name and item.range is not None]
    return ranges[0].scale if ranges else None


def config_of(space: Space, row: Cells) -> dict[str, Value] | None:
    """The configuration a row tells; None where it is not one of the space."""
    config = dict(space.constants)
    for parameter in space.parameters:
        if (cell := row.get(parameter.name, "")) == "":
            continue
        value = _value(parameter, cell)
        if value is not None and parameter.accepts(value):
            config[parameter.name] = value
    try:
        space.params_of(config)
    except ValueError:
        return None
    return config


def _value(parameter: Parameter, cell: str) -> Value:
    if isinstance(parameter, Choice):
        return next((value for value in parameter.values if _plain(cell) == _plain(str(value))), None)
    return int(number(cell)) if parameter.whole else number(cell)


def _plain(cell: str) -> Value:
    """A cell as a number where it is one, so that 1e-3 and 0.001 are one value."""
    value = number(cell)
    if math.isnan(value):
        return cell
    return int(value) if cell.lstrip("-").isdecimal() else value
