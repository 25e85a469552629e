"""A search space: constants, and an ordered list of parameters, which may be conditional.

    space = Space((Choice("method", ("gdiff", "ngdiff")), Number("c", 0.1, 0.9, when={"method": ("gdiff",)})))
    config = space.suggest(study.ask())       # {"method": "gdiff", "c": 0.37} or {"method": "ngdiff"}
    study.enqueue_trial(space.params_of(config))

A configuration maps plain names to values. A parameter is in the configuration only if its condition holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from search_spaces.common.values import Value, is_one_of, plain_name, same
from search_spaces.parameters import (
    Choice,
    Condition,
    Number,
    Parameter,
    format_parameter,
    parameter_from_dict,
    to_dict,
)

if TYPE_CHECKING:
    import optuna

_MAX_LISTED = 1000
"""The maximum product of the numbers of values for which the configurations of a space are listed."""


class SpaceError(ValueError):
    """The search space cannot be used. The attribute ``problems`` has one message per mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Space:
    """Constants, and an ordered list of parameters. A condition refers to earlier parameters and to constants.

    The constructor does not check the space. All methods except :meth:`problems` expect a space without problems.
    """

    parameters: tuple[Parameter, ...] = ()
    constants: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "constants", dict(self.constants))

    @classmethod
    def from_parameters(cls, parameters: Sequence[Parameter]) -> Space:
        """Return a space with these parameters. An unconditional parameter with a single value becomes a constant."""
        constants = {
            item.key: item.values[0]
            for item in parameters
            if isinstance(item, Choice) and len(item.values) == 1 and not item.when and item.key == item.name
        }
        return cls(tuple(item for item in parameters if item.key not in constants), constants)

    def suggest(self, trial: optuna.trial.BaseTrial) -> dict[str, Value]:
        """Return the configuration that an Optuna trial suggests."""
        config = dict(self.constants)
        by_key = dict(self.constants)
        for parameter in self.parameters:
            if _is_active(parameter, by_key):
                config[parameter.name] = by_key[parameter.key] = parameter.suggest(trial)
        return config

    def grid(self) -> list[dict[str, Value]]:
        """Return all configurations of a grid search. The last parameter changes fastest.

        Raises:
            ValueError: a range has no points of a grid search.
        """
        continuous = [item for item in self.parameters if not isinstance(item, Choice) and item.points() is None]
        if continuous:
            ranges = " and ".join(f"{item.key} ({item.low:g} to {item.high:g})" for item in continuous)
            raise ValueError(
                f"a grid search cannot visit every value of {ranges}. List the values to visit "
                "on the command line or in a space file (with 'values', or with 'grid' next to 'low' and 'high'), "
                "or use another sampler"
            )
        branches = [(dict(self.constants), dict(self.constants))]
        for parameter in self.parameters:
            branches = [extended for branch in branches for extended in _extend(parameter, *branch)]
        return [config for config, _ in branches]

    def configurations(self) -> list[dict[str, Value]] | None:
        """Return all configurations of the space; None if a range is continuous, or if the list would be too long."""
        without_grid = [item if isinstance(item, Choice) else replace(item, grid=()) for item in self.parameters]
        sizes = [math.inf if (points := item.points()) is None else len(points) for item in without_grid]
        return Space(tuple(without_grid), self.constants).grid() if math.prod(sizes) <= _MAX_LISTED else None

    def configuration(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the configuration with these values. Values of parameters whose conditions do not hold are omitted.

        Raises:
            ValueError: the configuration is not in the space.
        """
        config = dict(self.constants)
        by_key = dict(self.constants)
        for parameter in self.parameters:
            if _is_active(parameter, by_key) and parameter.name in values:
                config[parameter.name] = by_key[parameter.key] = values[parameter.name]
        self.params_of(config)
        return config

    def params_of(self, config: Mapping[str, object]) -> dict[str, Value]:
        """Convert a configuration to Optuna parameters.

        Names that are not in the space, such as ``seed``, are omitted.

        Raises:
            ValueError: the configuration is not in the space.
        """
        params: dict[str, Value] = {}
        by_key: dict[str, object] = dict(self.constants)
        invalid = [name for name, value in by_key.items() if name not in config or not same(config[name], value)]
        inactive = {parameter.name for parameter in self.parameters}
        for parameter in self.parameters:
            if not _is_active(parameter, by_key):
                continue
            inactive.discard(parameter.name)
            if parameter.name not in config or not parameter.accepts(config[parameter.name]):
                invalid.append(parameter.key)
                continue
            value = config[parameter.name]
            by_key[parameter.key] = value
            if name := parameter.optuna_name:
                params[name] = parameter.optuna_value(value)
        invalid += [name for name in config if name in inactive]
        if invalid:  # Optuna only warns if an enqueued value is out of range
            raise ValueError(f"{dict(config)} is not in the search space: {', '.join(invalid)} missing or not allowed")
        return params

    def distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        """Return the Optuna distributions by Optuna name."""
        return {item.optuna_name: item.distribution() for item in self.parameters if item.optuna_name}

    def format_values(self, *, grid: bool = False) -> dict[str, Value]:
        """Return the value of each constant and a description of each parameter, by plain name.

        With ``grid``, a description lists the points of a grid search.
        """
        descriptions = {plain_name(key): value for key, value in self.constants.items()}
        for parameter in self.parameters:
            description = format_parameter(parameter, grid=grid)
            if parameter.name in descriptions:
                description = f"{descriptions[parameter.name]}; {description}"
            descriptions[parameter.name] = description
        return descriptions

    def problems(self) -> list[str]:
        """Return a message for each problem with the space."""
        problems = [message for parameter in self.parameters for message in parameter.problems()]
        problems += [message for _, message in relation_problems(self.parameters, self.constants)]
        return problems

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable mapping for :meth:`from_dict`."""
        return {"parameters": [to_dict(item) for item in self.parameters], "constants": dict(self.constants)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Space:
        """Return the space that :meth:`to_dict` converted to a mapping.

        Raises:
            ValueError: the mapping is damaged.
        """
        try:
            return cls(tuple(map(parameter_from_dict, values["parameters"])), values["constants"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the stored search space is damaged: {error!r}") from None


def _is_active(parameter: Parameter, by_key: Mapping[str, object]) -> bool:
    return all(key in by_key and is_one_of(by_key[key], values) for key, values in parameter.when.items())


def _extend(
    parameter: Parameter, config: dict[str, Value], by_key: dict[str, Value]
) -> Iterator[tuple[dict[str, Value], dict[str, Value]]]:
    """Extend a partial configuration by each grid point of a parameter, and yield the results.

    If the parameter does not apply, yield the configuration unchanged. ``config`` maps plain names to values, and
    ``by_key`` maps keys to the same values.
    """
    if not _is_active(parameter, by_key):
        yield config, by_key
        return
    for value in parameter.points() or ():
        yield config | {parameter.name: value}, by_key | {parameter.key: value}


def relation_problems(parameters: Sequence[Parameter], constants: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Yield ``(key, message)`` for each conflict between the parameters and constants of a space."""
    keys = {parameter.key for parameter in parameters}
    previous: dict[str, Parameter] = {}
    for parameter in parameters:
        key = parameter.key
        for other in _rivals(parameter, previous, constants):
            remedy = "give them mutually exclusive conditions (when)"
            yield key, f"{key}: {other} and {key} both set '{parameter.name}', possibly in the same trial; {remedy}"
        for parent, values in parameter.when.items():
            comes_later = parent in keys and parent not in previous
            if comes_later and parent not in constants:
                yield key, f"{key}: its condition refers to {parent}, which must come before {key}"
            elif problem := _condition_problem(parent, values, previous, constants):
                yield key, f"{key}: {problem}"
        previous[key] = parameter


def _rivals(parameter: Parameter, previous: Mapping[str, Parameter], constants: Mapping[str, Value]) -> Iterator[str]:
    """Yield the keys of earlier parameters and constants that set the same name as ``parameter`` in the same trial."""
    if parameter.name in constants and parameter.key not in constants:
        yield parameter.name
    for other in previous.values():
        is_rival = other.name == parameter.name and other.key != parameter.key
        if is_rival and not _are_exclusive(other.when, parameter.when):
            yield other.key


def _condition_problem(
    parent: str, values: Sequence[Value], previous: Mapping[str, Parameter], constants: Mapping[str, Value]
) -> str | None:
    if not values:
        return f"this parameter never applies, because its condition lists no value of {parent}"
    never_applies = f"this parameter never applies, because its condition needs {parent} to be"
    value_list = " or ".join(repr(value) for value in values)
    if parent in constants:
        if is_one_of(constants[parent], values):
            return None
        return f"{never_applies} {value_list}, but {parent} is {constants[parent]!r}"
    if parent not in previous:
        return f"its condition refers to {parent}, which is not in the space"
    parameter = previous[parent]
    if isinstance(parameter, Number) and not parameter.integer:
        return f"its condition refers to {parent}, which is continuous; a condition needs values that can be listed"
    if not any(parameter.accepts(value) for value in values):
        return f"{never_applies} {value_list}, but {parent} cannot have this value"
    return None


def _are_exclusive(left: Condition, right: Condition) -> bool:
    """Return whether two conditions never hold together, because they need different values of one parameter."""
    shared_keys = left.keys() & right.keys()
    return not all(any(is_one_of(value, right[key]) for value in left[key]) for key in shared_keys)
