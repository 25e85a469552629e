"""The unparsed values of options: from the command line, Python, a file or sweep.json, with their sources."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from search_spaces.common.fields import SWITCHES, Field
from search_spaces.common.messages import did_you_mean
from sweeper.settings.fields import by_name_and_flag, fields_of
from sweeper.settings.tracking_uri import redact_uri

CLI, PYTHON, STORED = "cli", "python", "stored"
"""The sources of option values that are not from a --config file: the command line, Python, and sweep.json."""

_PLAIN = re.compile(r"[\w./+][\w./+@=-]*")


class Problems(Exception):
    """All problems with the given options. Raised before any work starts."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        # Several checks may report the same problem, with and without the file and line of the value.
        unique = dict.fromkeys(problems)
        self.problems = tuple(text for text in unique if not any(other.endswith(f": {text}") for other in unique))
        super().__init__("; ".join(self.problems))


def raise_if_any(problems: Sequence[str]) -> None:
    """Raise :class:`Problems` if there are any problems."""
    if problems:
        raise Problems(problems)


@dataclass(frozen=True, slots=True)
class Given:
    """An unparsed option value. Its source is ``CLI``, ``PYTHON``, ``STORED``, or ``FILE:LINE`` of a config file."""

    value: str | float | bool
    source: str

    @property
    def prefix(self) -> str:
        """The start of a message about the value: ``FILE:LINE: `` if the value is from a file, otherwise ""."""
        return "" if self.source in (CLI, PYTHON, STORED) else f"{self.source}: "


Raw = Mapping[str, Sequence[Given]]
"""The given values of each option, by the name of the option. Options without a given value are not included."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The parsed options of a command. Each command has a subclass in :mod:`sweeper.settings.options`.

    Attributes:
        command: the name of the command.
        raw: the given values, from which the other fields were parsed.
    """

    command: ClassVar[str]

    raw: Raw

    def is_typed(self, name: str) -> bool:
        """Return whether the option was given on the command line or in Python, not in a file."""
        return any(given.source in (CLI, PYTHON) for given in self.raw.get(name, ()))


def from_python(command: type[Options], options: Mapping[str, object]) -> dict[str, Sequence[Given]]:
    """Convert keyword arguments to option values.

    An argument with the value None is ignored. A list becomes several values or, if the option cannot be repeated, one
    value with commas. A mapping becomes several values ``NAME=VALUE``.

    Raises:
        TypeError: an argument is not an option of the command.
    """
    fields = fields_of(command)
    if unknown_names := [name for name in options if name not in fields]:
        suggestion = did_you_mean(unknown_names[0], fields)
        hint = f": {suggestion}" if suggestion else ""
        raise TypeError(f"{command.command} has no option {', '.join(unknown_names)}{hint}")
    values_by_name = {name: _given_values(fields[name], value, PYTHON) for name, value in options.items()}
    return {name: values for name, values in values_by_name.items() if values}


def _given_values(field: Field, value: object, source: str) -> list[Given]:
    elements = _as_list(value)
    if isinstance(value, Mapping):
        elements = [f"{key}={element}" for key, values in value.items() for element in _as_list(values)]
    elif len(elements) > 1 and not field.repeats:
        elements = [",".join(map(str, elements))]
    return [Given(element if isinstance(element, float | int) else str(element), source) for element in elements]


def _as_list(value: object) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return [value]


def from_yaml(command: type[Options], path: Path) -> tuple[dict[str, Sequence[Given]], list[str]]:
    """Return the values in a ``--config`` file, and the problems with the file. Options without a value are ignored."""
    from search_spaces.yaml_nodes import YamlError, load

    try:
        content, lines = load(path, scalar=lambda text: None if text in ("", "~", "null") else text)
    except YamlError as error:
        return {}, [f"--config {error}"]
    if not isinstance(content, dict | None):
        return {}, [f"--config {path}: expected one option per line, such as 'trials: 32'"]
    fields = by_name_and_flag(command)
    values_by_name: dict[str, Sequence[Given]] = {}
    problems: list[str] = []
    for key, value in (content or {}).items():
        source = f"{path}:{lines[key]}"
        elements = _as_list(value)
        field = fields.get(key.replace("-", "_"))
        if field is None:
            suggestion = did_you_mean(key.replace("_", "-"), {name.replace("_", "-") for name in fields})
            expected = suggestion or f"see 'python -m sweeper {command.command} --help'"
            problems.append(f"{source}: unknown option '{key}': {expected}")
        elif field.name in values_by_name:  # written with - and with _, or under two names
            problems.append(f"{source}: {key} is given twice")
        elif field.name != "option" and any(isinstance(element, Mapping | list) for element in elements):
            expected = f"{field.metavar or 'a value'} as on the command line"
            problems.append(f"{source}: {key} needs {expected}, got {json.dumps(value)}")
        elif len(elements) > 1 and not (field.repeats or field.name in ("metrics", "objectives")):
            problems.append(f"{source}: {key} takes one value, got {', '.join(map(str, value))}")
        elif given_values := _given_values(field, value, source):
            values_by_name[field.name] = given_values
    return values_by_name, problems


def with_config(command: type[Options], raw: Raw, config: str | None) -> tuple[Raw, list[str]]:
    """Return the given options and those in a config file, and the file's problems. Given options have priority."""
    file_values, problems = from_yaml(command, Path(config)) if config is not None else ({}, [])
    return {**file_values, **raw}, problems


def to_config(command: type[Options], raw: Raw) -> str:
    """Return the text of a ``--config`` file with these option values. ``--out`` is left out."""
    lines = [f"# python -m sweeper {command.command} --config THIS_FILE"]
    for name, field in fields_of(command).items():
        texts = [_scalar(given.value) for given in raw.get(name, ())]
        if texts and name != "out":
            key = field.flag.removeprefix("--")
            list_lines = [f"{key}:", *(f"  - {text}" for text in texts)]
            lines += list_lines if field.repeats else [f"{key}: {texts[0]}"]
    return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def command_line(command: type[Options], raw: Raw, *arguments: str) -> str:
    """Return a command line with these option values, without passwords."""
    words = ["python", "-m", "sweeper", command.command, *arguments]
    for name, field in fields_of(command).items():
        words += _arguments(field, raw.get(name, ()))
    return shlex.join(words)


def _arguments(field: Field, values: Sequence[Given]) -> list[str]:
    if field.kind is bool:
        negative_flag = field.flag.replace("--", "--no-", 1)
        switches = [SWITCHES.get(str(given.value).lower(), field.default) for given in values]
        return [field.flag if switch else negative_flag for switch in switches if switch != field.default]
    words: list[str] = []
    for given in values:
        words += [field.flag, redact_uri(str(given.value))]
    return words


def to_json(raw: Raw) -> dict[str, list[list[object]]]:
    """Return the option values for sweep.json, without passwords."""
    return {name: [_stored_pair(given) for given in values] for name, values in raw.items()}


def _stored_pair(given: Given) -> list[object]:
    value = redact_uri(given.value) if isinstance(given.value, str) else given.value
    return [value, given.source]


def from_json(stored_values: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, Sequence[Given]]:
    return {name: [Given(*pair) for pair in pairs] for name, pairs in stored_values.items()}
