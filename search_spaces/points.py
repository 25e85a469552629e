"""Parse the configurations that a sweep tries first: ``lr=1e-3,c=0.5``, or a file with a list of mappings.

Such a configuration is called a point. The sampler chooses the parameters that a point does not set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from search_spaces.messages import did_you_mean
from search_spaces.parameters import Parameter, format_parameter
from search_spaces.space import Space
from search_spaces.values import Value, plain_name, same
from search_spaces.yaml_nodes import YamlError, compose, line_of, plain_scalar, scalar

Point = dict[str, Value]


class PointError(ValueError):
    """The point cannot be parsed or is not in the space; the message is for the user."""


def read_points(given: str) -> list[Point]:
    """Return the point in a text ``NAME=VALUE,...``, or the points in a YAML or JSON file with a list of mappings.

    Raises:
        PointError: the text has another form, or the file cannot be read.
    """
    if "=" not in given or Path(given).is_file():
        return _load(Path(given))
    point: Point = {}
    for pair in given.split(","):
        name, sign, text = (part.strip() for part in pair.partition("="))
        if not (name and sign and text):
            raise PointError(f"expected NAME=VALUE,... such as lr=1e-3,c=0.5, or a file, got '{given}'")
        if name in point:
            raise PointError(f"{name} appears twice in '{given}'")
        point[name] = plain_scalar(text)
    return [point]


def _load(path: Path) -> list[Point]:
    try:
        root = compose(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise PointError(f"{path}: no such file; expected NAME=VALUE,... such as lr=1e-3,c=0.5, or a file") from None
    except UnicodeDecodeError:
        raise PointError(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise PointError(f"{path}: cannot be read: {error.strerror or error}") from None
    except YamlError as error:
        raise PointError(f"{path}:{error.line}: not valid YAML: {error}") from None
    if not isinstance(root, yaml.SequenceNode) or not root.value:
        raise PointError(f"{path}: expected a list of points, such as - {{lr: 1e-3, c: 0.5}}")
    return [_point(path, node) for node in root.value]


def _point(path: Path, node: yaml.Node) -> Point:
    wrong = PointError(f"{path}:{line_of(node)}: expected names with one value each, such as {{lr: 1e-3, c: 0.5}}")
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise wrong
    point: Point = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode) or key.value in point:
            raise wrong
        try:
            point[str(key.value)] = scalar(value)
        except YamlError as error:
            raise PointError(f"{path}:{error.line}: {error}") from None
    return point


def params_of_point(space: Space, point: Mapping[str, Value]) -> dict[str, Value]:
    """Return the parameters that the point determines, by their names in Optuna.

    A parameter that exists in only one branch of the space selects that branch: ``c`` selects gdiff if only gdiff has a
    parameter ``c``.

    Raises:
        PointError: a name or a value is not in the space, does not apply, or applies to several branches.
    """
    names = list(dict.fromkeys(item.name for item in space.parameters))
    chosen = dict(point)
    params: dict[str, Value] = {}
    # Conditions refer to earlier parameters, so iterating backwards finds the values that the point implies.
    for name in reversed(names):
        if name in chosen:
            parameter = _applying(space, chosen, name)
            chosen |= {key: values[0] for key, values in _open(space, chosen, parameter).items()}
            if parameter.optuna_name:
                params[parameter.optuna_name] = parameter.stored(chosen[name])
    for name in [name for name in point if name not in names]:
        if name not in space.constants:
            near = f" ({meant})" if (meant := did_you_mean(name, names)) else ""
            raise PointError(f"the space has no {name}{near}: it searches {', '.join(names) or 'nothing'}")
        if not same(point[name], space.constants[name]):
            raise PointError(f"{name} is {space.constants[name]} in every trial, it cannot be {point[name]}")
    return params


def _applying(space: Space, chosen: Mapping[str, Value], name: str) -> Parameter:
    """Return the only parameter with this name that accepts the chosen value and whose conditions can hold."""
    value, named = chosen[name], [item for item in space.parameters if item.name == name]
    able = [item for item in named if item.accepts(value)]
    if not able:
        raise PointError(f"{name} cannot be {value}: the space has {' or '.join(map(format_parameter, named))}")
    known = {**space.constants, **chosen}
    fitting = [
        item
        for item in able
        if all(
            plain_name(key) not in known or any(same(known[plain_name(key)], needed) for needed in values)
            for key, values in item.when.items()
        )
    ]
    if not fitting:
        needed = " or ".join(_conditions(item) for item in able)
        raise PointError(f"{name} does not apply: it needs {needed}")
    opened = [item for item in fitting if any(len(values) > 1 for values in _open(space, chosen, item).values())]
    if len(fitting) > 1 or opened:
        needed = " or ".join(_conditions(item) for item in fitting)
        raise PointError(f"{name} applies with {needed}: name one")
    return fitting[0]


def _open(space: Space, chosen: Mapping[str, Value], parameter: Parameter) -> dict[str, tuple[Value, ...]]:
    """Return the parameter's conditions on other parameters that the point does not set."""
    known = {**space.constants, **chosen}
    return {plain_name(key): values for key, values in parameter.when.items() if plain_name(key) not in known}


def _conditions(parameter: Parameter) -> str:
    return " and ".join(f"{key} {'/'.join(map(str, values))}" for key, values in parameter.when.items()) or "anything"
