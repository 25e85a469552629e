"""Parse points: the configurations that a sweep tries first.

A point may be incomplete. The sampler chooses the other parameters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from search_spaces.common.messages import did_you_mean
from search_spaces.common.values import Value, is_one_of, plain_name, same
from search_spaces.parameters import Condition, Parameter, format_parameter
from search_spaces.space import Space
from search_spaces.yaml_nodes import YamlError, load, plain_scalar

Point = dict[str, Value]


class PointError(ValueError):
    """A point cannot be parsed or is not in the space. The message is for the user."""


def read_points(text: str) -> list[Point]:
    """Return the point in a text such as ``lr=1e-3,c=0.5``, or the list of points in a YAML or JSON file.

    Raises:
        PointError: the text cannot be parsed, or the file cannot be read.
    """
    # os.path, because the methods of Path raise OSError for texts that are too long for a file name
    if "=" not in text or os.path.isfile(text):
        return _load(Path(text))
    point: Point = {}
    for pair in text.split(","):
        name, _, value_text = (part.strip() for part in pair.partition("="))
        if not name or not value_text:
            raise PointError(f"expected NAME=VALUE,... such as lr=1e-3,c=0.5, or a file, got '{text}'")
        if name in point:
            raise PointError(f"{name} appears twice in '{text}'")
        point[name] = plain_scalar(value_text)
    return [point]


def _load(path: Path) -> list[Point]:
    try:
        points, lines = load(path)
    except YamlError as error:
        raise PointError(f"{error}; expected NAME=VALUE,... such as lr=1e-3,c=0.5, or a file of points") from None
    if not isinstance(points, list) or not points:
        raise PointError(f"{path}: expected a list of points, such as - {{lr: 1e-3, c: 0.5}}")
    for index, point in enumerate(points):
        is_flat = isinstance(point, dict) and not any(isinstance(value, list | dict) for value in point.values())
        if not point or not is_flat:
            example = "such as {lr: 1e-3, c: 0.5}"
            raise PointError(f"{path}:{lines[index]}: expected names with one value each, {example}")
    return points


def params_of_point(space: Space, point: Mapping[str, Value]) -> dict[str, Value]:
    """Return the parameters that a point determines, by Optuna name.

    A point may imply the values of other parameters. For example, ``c`` implies the method gdiff if only gdiff has
    ``c``.

    Raises:
        PointError: the point is not in the space, or does not select a single branch of the space.
    """
    names = dict.fromkeys(item.name for item in space.parameters)
    for name, value in point.items():
        if name not in names and name not in space.constants:
            suggestion = did_you_mean(name, names)
            hint = f" ({suggestion})" if suggestion else ""
            parameters = ", ".join(names) or "all constant"
            raise PointError(f"the space has no parameter {name}{hint}; its parameters are {parameters}")
        if name not in names and not same(value, space.constants[name]):
            raise PointError(f"{name} is {space.constants[name]} in every trial and cannot be {value}")
    config = {**space.constants, **point}
    params: dict[str, Value] = {}
    # Conditions refer to earlier parameters, so iterating backwards finds the values that the point implies.
    for name in reversed(names):
        if name in config and name not in space.constants:
            parameter = _select_parameter(space, config, name)
            implied_values = {plain_name(key): values[0] for key, values in parameter.when.items()}
            config = implied_values | config
            if parameter.optuna_name:
                params[parameter.optuna_name] = parameter.optuna_value(config[name])
    return params


def _select_parameter(space: Space, config: Mapping[str, Value], name: str) -> Parameter:
    candidates = [item for item in space.parameters if item.name == name]
    valid = [item for item in candidates if item.accepts(config[name])]
    if not valid:
        expected = " or ".join(format_parameter(item) for item in candidates)
        raise PointError(f"{name} cannot be {config[name]}: the space allows {expected}")
    active = [item for item in valid if _is_compatible(config, item.when)]
    conditions = " or ".join(_format_condition(item.when) for item in active or valid)
    if not active:
        raise PointError(f"{name} applies only with {conditions}")
    is_ambiguous = any(len(values) > 1 and plain_name(key) not in config for key, values in active[0].when.items())
    if len(active) > 1 or is_ambiguous:
        raise PointError(f"{name} applies only with {conditions}: also give one of these values")
    return active[0]


def _is_compatible(config: Mapping[str, Value], condition: Condition) -> bool:
    """Return whether a condition can hold for a configuration that may be incomplete."""
    for key, values in condition.items():
        name = plain_name(key)
        if name in config and not is_one_of(config[name], values):
            return False
    return True


def _format_condition(condition: Condition) -> str:
    """Return a text such as ``method gdiff/npo and auto_lr on``."""
    parts = [f"{key} {'/'.join(map(str, values))}" for key, values in condition.items()]
    return " and ".join(parts) or "anything"
