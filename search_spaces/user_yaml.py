"""Read a search space from a YAML file. All mistakes are reported at once, each with the line of its parameter.

    method: [gdiff, npo+ngdiff]                       # a list: one of these values
    lr: {low: 1.0e-5, high: 1.0e-3, log: true}        # a range
    c: {values: [0.1, 0.5, 0.9], when: {method: gdiff}}
    npo.beta: {low: 0.01, high: 1.0, log: true, when: {method: [npo, npo+ngdiff]}}
    auto_lr: [off, gen]
    epochs: 10                                        # a constant

A condition (``when``) refers to parameters above it. The key ``grid`` lists the points of a grid search. With
``log_to_one: true``, a range is sampled uniformly in log(1 - x).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search_spaces.common.fields import SWITCHES, Field, format_value
from search_spaces.common.messages import did_you_mean, expected_one_of
from search_spaces.common.values import Value, is_number, plain_name
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space, SpaceError, relation_problems
from search_spaces.yaml_nodes import YamlError, load

_ENDS = {"low", "high"}
_OPTIONAL = {"log", "log_to_one", "grid"}
"""The keys that a range may have besides its ends."""
Fields = Mapping[str, Field]


def load_space(path: Path, fields: Fields) -> tuple[Space, list[str]]:
    """Read a search space from a YAML file. Return the space of the valid parameters, and one message for each problem.

    Args:
        fields: the settings that may be parameters, by key (such as ``npo.beta``).
    """
    try:
        content, lines = load(path)
    except YamlError as error:
        return Space(), [str(error)]
    if not isinstance(content, dict):
        got = "an empty file" if content is None else format_value(content)
        return Space(), [f"{path}: expected parameters, one per line, such as lr: [1e-5, 1e-4], got {got}"]
    problems: list[tuple[str, str]] = []
    parameters: list[Parameter] = []
    checkable: list[Parameter] = []  # those whose conditions refer only to parameters that could be read
    unchecked_keys: set[str] = set()
    for key, definition in content.items():
        try:
            parameter = _parameter(key, definition, fields)
        except SpaceError as error:
            problems += [(key, message) for message in error.problems]
            unchecked_keys.add(key)
            continue
        problems += [(key, message) for message in parameter.problems()]
        parameters.append(parameter)
        if unchecked_keys.isdisjoint(parameter.when):
            checkable.append(parameter)
        else:
            unchecked_keys.add(key)
    problems += relation_problems(checkable, {})
    problems.sort(key=lambda item: lines[item[0]])
    return Space.from_parameters(parameters), [f"{path}:{lines[key]}: {message}" for key, message in problems]


def _parameter(key: str, definition: Any, fields: Fields) -> Parameter:
    field = fields.get(key)
    if field is None:
        names = sorted(name for name, item in fields.items() if not item.fixed)
        expected = did_you_mean(key, names) or expected_one_of(key, names)
        raise SpaceError([f"unknown parameter '{key}': {expected}"])
    if field.fixed:
        remedy = f"; set it with {field.flag}" if field.flag else ""
        raise SpaceError([f"{key} cannot vary within a sweep: {field.fixed}{remedy}"])
    entries = dict(definition) if isinstance(definition, dict) else {"values": definition}
    conditions = entries.pop("when", {})
    if not isinstance(conditions, dict):
        raise SpaceError([f"{key}: 'when' needs a mapping such as {{method: [gdiff]}}, got {format_value(conditions)}"])
    when = {name: _values(name, values, fields) for name, values in conditions.items()}
    if entries.keys() == {"values"}:
        return Choice(plain_name(key), _values(key, entries["values"], fields), when=when, key=key)
    if not _ENDS <= entries.keys() <= _ENDS | _OPTIONAL:
        expected = "either values, or low and high (and optionally log, log_to_one or grid)"
        raise SpaceError([f"{key}: expected {expected}, and optionally when; got {', '.join(entries) or 'nothing'}"])
    if field.kind not in (int, float):
        raise SpaceError([f"{key}: a range needs numbers, but {key} must be {field.kind_name}"])
    low = _values(key, entries["low"], fields)
    high = _values(key, entries["high"], fields)
    grid = _values(key, entries.get("grid", []), fields)
    log = SWITCHES.get(str(entries.get("log", False)).lower())
    log_to_one = SWITCHES.get(str(entries.get("log_to_one", False)).lower())
    if log is None or log_to_one is None:
        raise SpaceError([f"{key}: log and log_to_one must be true or false"])
    has_two_ends = len(low) == 1 and len(high) == 1
    if not has_two_ends or not all(is_number(value) for value in (*low, *high, *grid)):
        raise SpaceError([f"{key}: a range needs one number for low and one for high, and numbers for grid"])
    numbers: dict[str, Any] = {"low": low[0], "high": high[0], "grid": grid}
    is_integer = field.kind is int
    return Number(plain_name(key), **numbers, log=log, log_to_one=log_to_one, when=when, key=key, integer=is_integer)


def _values(key: str, definition: Any, fields: Fields) -> tuple[Value, ...]:
    """Return the distinct values in ``definition`` (a list or a single value), converted to the type of the setting."""
    field = fields.get(key)
    values = definition if isinstance(definition, list) else [definition]
    if field is None:  # a condition on an unknown parameter, which relation_problems reports
        return tuple(values)
    if field.kind is bool or "off" in field.allowed:  # YAML 1.1 reads on and off as booleans
        on, off = (True, False) if field.kind is bool else ("on", "off")
        value_by_word = {word: on if is_on else off for word, is_on in SWITCHES.items()}
        values = [value_by_word.get(str(value).lower(), value) for value in values]
    values = [field.words.get(value, value) if isinstance(value, str) else value for value in values]
    problems = [problem for problem in map(field.problem, values) if problem is not None]
    if problems:
        raise SpaceError(problems)
    return tuple(dict.fromkeys(field.convert(value) for value in values))
