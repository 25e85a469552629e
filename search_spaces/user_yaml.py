"""Read a search space from a YAML file. All mistakes are reported at once, with their line numbers.

    method: [gdiff, npo+ngdiff]                       # a list: one of these values
    lr: {low: 1.0e-5, high: 1.0e-3, log: true}        # a range
    c: {values: [0.1, 0.5, 0.9], when: {method: gdiff}}
    npo.beta: {low: 0.01, high: 1.0, log: true, when: {method: [npo, npo+ngdiff]}}
    auto_lr: [off, on]
    epochs: 10                                        # a constant

A condition (``when``) refers to parameters above it. The key ``grid`` lists the points of a grid search. With
``log_to_one: true``, a range is sampled uniformly in log(1 - x).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

import yaml

from search_spaces.fields import SWITCHES, Field, shown
from search_spaces.messages import did_you_mean, expected_one_of
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space, relation_problems
from search_spaces.values import Value, is_number, plain_name
from search_spaces.yaml_nodes import YamlError, line_of, load, scalar

_PARTS = ("low", "high", "log", "log_to_one", "grid", "values", "when")


@dataclass(frozen=True, slots=True)
class SpaceFile:
    """A parsed space file: the parameters that could be read, and one message per problem."""

    source: str
    space: Space = field(default_factory=Space)
    lines: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def at(self, key: str, sentence: str) -> str:
        """Return a message that starts with the file and the line of a parameter."""
        return f"{self.source}:{self.lines[key]}: {sentence}"


def load_space(path: Path, fields: Mapping[str, Field]) -> SpaceFile:
    """Read a search space from a YAML file. The keys of ``fields`` are the allowed names, such as ``npo.beta``."""
    example = "such as lr: [1e-5, 1e-4]"
    try:
        root = load(path)
    except YamlError as error:
        return SpaceFile(str(path), problems=(str(error),))
    if root is None:
        problem = f"the file is empty; expected parameters, one per line, {example}"
        return SpaceFile(str(path), problems=(f"{path}: {problem}",))
    if not isinstance(root, yaml.MappingNode):
        problem = f"expected a mapping of parameters, {example}, got {_describe(root)}"
        return SpaceFile(str(path), problems=(f"{path}:{line_of(root)}: {problem}",))
    reader = _Reader(fields)
    space = reader.space(root)
    problems = tuple(f"{path}:{line}: {text}" for line, text in sorted(reader.problems, key=itemgetter(0)))
    return SpaceFile(str(path), space, reader.lines, problems)


class _Reader:
    """Reads the nodes of one file and collects the problems as ``(line, message)``."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = fields
        self._current = ""
        self._unclear: set[str] = set()
        self.lines: dict[str, int] = {}
        self.problems: list[tuple[int, str]] = []

    def space(self, root: yaml.MappingNode) -> Space:
        """Return the space of all parameters that can be read."""
        parameters: list[Parameter] = []
        for key_node, node in root.value:
            key = self._key(key_node)
            parameter = self._parameter(key, node) if key is not None else None
            if parameter is not None:
                parameters.append(parameter)
                self.problems += [(self.lines[parameter.key], sentence) for sentence in parameter.problems()]
        # If a parameter's values could not be read, do not report problems with conditions on this parameter.
        for parameter in parameters:
            if not self._unclear.isdisjoint(parameter.when):
                self._unclear.add(parameter.key)
        clear = [parameter for parameter in parameters if parameter.key not in self._unclear]
        self.problems += [(self.lines[key], sentence) for key, sentence in relation_problems(clear, {})]
        return Space.of(parameters)

    def _add(self, node: yaml.Node, sentence: str, *, lost: bool = False) -> None:
        """Add a problem. ``lost`` means that a part of the current parameter could not be read."""
        self.problems.append((line_of(node), sentence))
        if lost:
            self._unclear.add(self._current)

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._add(node, f"expected the name of a parameter, got {_describe(node)}")
            return None
        key = str(node.value)
        if key in self.lines:
            self._add(node, f"{key}: already appears in line {self.lines[key]}")
            return None
        self.lines[key] = line_of(node)
        self._current = key
        known = self._fields.get(key)
        if known is None:
            names = sorted(name for name, item in self._fields.items() if not item.fixed)
            expected = did_you_mean(key, names) or expected_one_of(key, names)
            self._add(node, f"unknown parameter '{key}': {expected}", lost=True)
        elif known.fixed:
            instead = f"; set it with {known.flag}" if known.flag else ""
            self._add(node, f"{key}: cannot vary within a sweep: {known.fixed}{instead}", lost=True)
        else:
            return key
        return None

    def _parameter(self, key: str, node: yaml.Node) -> Parameter | None:
        if not isinstance(node, yaml.MappingNode):
            return self._choice(key, node, {})
        parts = self._parts(key, node)
        when = self._when(key, parts["when"]) if "when" in parts else {}
        if "values" in parts:
            if clash := [part for part in _PARTS[:5] if part in parts]:
                self._add(
                    node, f"{key}: values and a range are mutually exclusive: remove values or {', '.join(clash)}"
                )
            return self._choice(key, parts["values"], when)
        if missing := [part for part in ("low", "high") if part not in parts]:
            self._add(node, f"{key}: needs low and high, or values; missing: {' and '.join(missing)}", lost=True)
            return None
        kind = self._fields[key].kind
        if kind not in (int, float):
            self._add(node, f"{key}: a range needs numbers, but {key} must be {self._fields[key].kind_name}", lost=True)
            return None
        low, high = self._number(key, parts["low"]), self._number(key, parts["high"])
        log, log_to_one = (
            part in parts and self._flag(f"{key}: {part}", parts[part]) for part in ("log", "log_to_one")
        )
        points = [self._number(key, item) for item in _items(parts["grid"])] if "grid" in parts else []
        if low is None or high is None:
            return None
        whole = kind is int
        if whole and log_to_one:
            self._add(node, f"{key}: log_to_one is for shares between 0 and 1, not for whole numbers")
            log_to_one = False
        grid = tuple(point for point in points if point is not None)
        return Number(
            plain_name(key), low, high, log=log, log_to_one=log_to_one, when=when, key=key, grid=grid, whole=whole
        )

    def _choice(self, key: str, node: yaml.Node, when: Mapping[str, tuple[Value, ...]]) -> Choice | None:
        values = self._values(key, node)
        if not values and key in self._unclear:
            return None
        return Choice(plain_name(key), values, when=when, key=key)

    def _mapping(self, node: yaml.MappingNode, place: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the nodes of each key and its value, by key."""
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else _describe(key_node)
            if key in found:
                self._add(key_node, f"{place} {key} appears twice")
            else:
                found[key] = (key_node, value_node)
        return found

    def _parts(self, key: str, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        parts = self._mapping(node, f"{key}:")
        for part, (part_node, _) in parts.items():
            if part not in _PARTS:
                expected = did_you_mean(part, _PARTS) or expected_one_of(part, _PARTS)
                self._add(part_node, f"{key}: unknown key '{part}': {expected}")
        return {part: value_node for part, (_, value_node) in parts.items() if part in _PARTS}

    def _when(self, key: str, node: yaml.Node) -> dict[str, tuple[Value, ...]]:
        if not isinstance(node, yaml.MappingNode):
            expected = "when needs a mapping such as {method: [gdiff]}"
            self._add(node, f"{key}: {expected}, got {_describe(node)}", lost=True)
            return {}
        conditions = self._mapping(node, f"{key}: in its condition,")
        return {waited: self._values(waited, values) for waited, (_, values) in conditions.items()}

    def _values(self, key: str, node: yaml.Node) -> tuple[Value, ...]:
        return tuple(value for item in _items(node) for value in self._value(key, item))

    def _value(self, key: str, node: yaml.Node) -> tuple[Value, ...]:
        """Return a tuple with the value; an empty tuple for an invalid value."""
        if not isinstance(node, yaml.ScalarNode):
            self._add(node, f"{key}: expected a value, got {_describe(node)}", lost=True)
            return ()
        try:
            value = scalar(node)
        except YamlError as error:
            self._add(node, f"{key}: {error}", lost=True)
            return ()
        known = self._fields.get(key)
        if known is None:  # a condition on an unknown parameter; relation_problems reports it
            return (value,)
        switch = SWITCHES.get(str(node.value).lower())
        if switch is not None and known.kind is bool:
            value = switch
        elif switch is not None and "on" in known.allowed:
            value = "on" if switch else "off"
        if problem := known.problem(value):
            self._add(node, problem, lost=True)
            return ()
        typed: Value = known.typed(value)
        return (typed,)

    def _number(self, key: str, node: yaml.Node) -> float | None:
        for value in self._value(key, node):
            if is_number(value):
                return value
            self._add(node, f"{key}: a range needs numbers, got {shown(value)}", lost=True)
        return None

    def _flag(self, what: str, node: yaml.Node) -> bool:
        switch = SWITCHES.get(str(node.value).lower()) if isinstance(node, yaml.ScalarNode) else None
        if switch is None:
            self._add(node, f"{what} must be true or false, got {_describe(node)}")
        return bool(switch)


def _items(node: yaml.Node) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]


def _describe(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(str(node.value))
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
