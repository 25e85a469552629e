"""Read option values, record their sources, and report problems with them."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.fields import SWITCHES, Field
from search_spaces.messages import did_you_mean
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
        found = dict.fromkeys(problems)
        self.problems = tuple(text for text in found if not any(other.endswith(f": {text}") for other in found))
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
"""The given values of each option, by the name of the option."""


def from_python(command: str, options: Mapping[str, object]) -> dict[str, Sequence[Given]]:
    """Convert keyword arguments to option values.

    An argument with the value None is ignored. A list becomes several values or, if the option cannot be repeated, one
    value with commas. A mapping becomes several values ``NAME=VALUE``.

    Raises:
        TypeError: an argument is not an option of the command.
    """
    fields = fields_of(command)
    if unknown := [name for name in options if name not in fields]:
        near = did_you_mean(unknown[0], fields)
        raise TypeError(f"{command} has no option {', '.join(unknown)}{near and f': {near}'}")
    found = {name: _given_values(fields[name], value, PYTHON) for name, value in options.items()}
    return {name: given for name, given in found.items() if given}


def _given_values(item: Field, value: object, source: str) -> list[Given]:
    parts = _as_list(value)
    if isinstance(value, Mapping):
        parts = [f"{key}={part}" for key, several in value.items() for part in _as_list(several)]
    elif len(parts) > 1 and not item.repeats:
        parts = [",".join(map(str, parts))]
    return [Given(part if isinstance(part, float | int) else str(part), source) for part in parts]


def _as_list(value: object) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str | Path) or not isinstance(value, Sequence) else list(value)


def from_yaml(command: str, path: Path) -> tuple[dict[str, Sequence[Given]], list[str]]:
    """Return the values in a ``--config`` file, and the problems with the file. Options without a value are ignored."""
    from search_spaces.yaml_nodes import YamlError, load

    try:
        content, lines = load(path, lambda text: None if text in ("", "~", "null") else text)
    except YamlError as error:
        return {}, [f"--config {error}"]
    if not isinstance(content, dict | None):
        return {}, [f"--config {path}: expected one option per line, such as 'trials: 32'"]
    known = by_name_and_flag(fields_of(command))
    found: dict[str, Sequence[Given]] = {}
    problems: list[str] = []
    for key, value in (content or {}).items():
        source = f"{path}:{lines[key]}"
        item = known.get(key.replace("-", "_"))
        if item is None:
            near = did_you_mean(key.replace("_", "-"), {name.replace("_", "-") for name in known})
            expected = near or f"see 'python -m sweeper {command} --help'"
            problems.append(f"{source}: unknown option '{key}': {expected}")
        elif item.name in found:  # written with - and with _, or under two names
            problems.append(f"{source}: {key} is given twice")
        elif item.name != "option" and any(isinstance(part, Mapping | list) for part in _as_list(value)):
            expected = f"{item.metavar or 'a value'} as on the command line"
            problems.append(f"{source}: {key} needs {expected}, got {json.dumps(value)}")
        elif len(_as_list(value)) > 1 and not (item.repeats or item.name in ("metrics", "objectives")):
            problems.append(f"{source}: {key} takes one value, got {', '.join(map(str, value))}")
        elif given := _given_values(item, value, source):
            found[item.name] = given
    return found, problems


def with_config(command: str, given: Raw, config: str | None) -> tuple[Raw, list[str]]:
    """Return the given options and those in a config file, and the file's problems. Given options have priority."""
    filed, problems = from_yaml(command, Path(config)) if config is not None else ({}, [])
    return {**filed, **given}, problems


def to_config(command: str, raw: Raw) -> str:
    """Return the text of a ``--config`` file with these option values. ``--out`` is left out."""
    lines = [f"# python -m sweeper {command} --config THIS_FILE"]
    for name, item in fields_of(command).items():
        texts = [_scalar(one.value) for one in raw.get(name, ())]
        if texts and name != "out":
            key = f"{item.flag.removeprefix('--')}:"
            lines += [key, *(f"  - {text}" for text in texts)] if item.repeats else [f"{key} {texts[0]}"]
    return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def command_line(command: str, raw: Raw, *arguments: str) -> str:
    """Return a command line with these option values, without passwords."""
    words = [word for name, item in fields_of(command).items() for word in _arguments(item, raw.get(name, ()))]
    return shlex.join(["python", "-m", "sweeper", command, *arguments, *words])


def _arguments(item: Field, values: Sequence[Given]) -> list[str]:
    if item.kind is not bool:
        return [part for one in values for part in (item.flag, redact_uri(str(one.value)))]
    flags = {True: item.flag, False: item.flag.replace("--", "--no-", 1)}
    switches = [SWITCHES.get(str(one.value).lower(), item.default) for one in values]
    return [flags[switch] for switch in switches if switch != item.default]


def to_json(raw: Raw) -> dict[str, list[list[object]]]:
    """Return the option values for sweep.json, without passwords."""
    return {
        name: [[redact_uri(one.value) if isinstance(one.value, str) else one.value, one.source] for one in values]
        for name, values in raw.items()
    }


def from_json(stored: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, Sequence[Given]]:
    return {name: [Given(*pair) for pair in pairs] for name, pairs in stored.items()}


class Options:
    """The parsed option values of one command, and the problems found so far."""

    def __init__(self, command: str, raw: Raw, problems: Sequence[str] = ()) -> None:
        self.command = command
        self.raw = raw
        self.fields = fields_of(command)
        self.problems = list(problems)
        self.values: dict[str, Any] = {name: self._read(name) for name in self.fields}

    def _read(self, name: str) -> Any:
        found, item = [], self.fields[name]
        for one in self.raw.get(name, ()):
            try:
                value = item.read(one.value)
            except ValueError as error:
                self._add(str(error), one)
                continue
            if name == "template" and is_template_file(value):
                if not os.path.isfile(value):
                    self._add(f"--template {value}: no such file; expected a file, or a name in 'list templates'", one)
                    continue
                value = Path(value).stem  # the file has already been loaded as a plug-in
            if name == "lora_rank" and value == 0:  # 0: train all weights, even if the model has a default rank
                value = None
            if name != "c" and (problem := item.problem(value)):  # c is checked with the methods
                self._add(problem, one)
                if item.scope == "command":  # an invalid field of a trial is kept, because other fields depend on it
                    continue
            found.append(value)
        if item.repeats:
            return tuple(found)
        return found[-1] if found else item.default

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)

    def explicit(self, name: str) -> Any:
        """Return the value of an option that was given (its default if the given value is invalid), otherwise None."""
        return self.values.get(name) if self.raw.get(name) else None

    def is_typed(self, name: str) -> bool:
        """Return whether the option was given on the command line or in Python, not in a file."""
        return any(one.source in (CLI, PYTHON) for one in self.raw.get(name, ()))

    def add(self, problem: str, name: str = "") -> None:
        """Add a problem. If the value of the option ``name`` is from a file, prepend the file and line."""
        self._add(problem, *self.raw.get(name, ())[:1])

    def extend(self, problems: Iterable[str | None], name: str = "") -> None:
        """Add each problem that is not None."""
        for problem in filter(None, problems):
            self.add(problem, name)

    def _add(self, problem: str, *given: Given) -> None:
        self.problems.append("".join(one.prefix for one in given) + problem)

    def without_auto_lr(self, remedy: str) -> None:
        """Add a problem for each AutoLR option that the user gave (:meth:`is_typed`).

        Call this method only if AutoLR is off. ``remedy`` tells the user how to use AutoLR.
        """
        for name, item in self.fields.items():
            if self.is_typed(name) and item.scope == "trial" and item.role == "auto_lr" and name != "auto_lr":
                self.add(f"{item.flag} has no effect, because AutoLR is off; to use AutoLR, {remedy}", name)

    @functools.cached_property
    def method_options(self) -> dict[str, list[float]]:
        """The values that ``--option`` and ``--c`` give to method options, by the name of the option."""
        found: dict[str, list[float]] = {}
        for pair in self["option"] or ():
            name, _, text = pair.partition("=")
            try:
                if not name.strip():
                    raise ValueError
                found.setdefault(name.strip(), []).append(float(text))
            except ValueError:
                self.add(f"--option must be NAME=VALUE with a name and a number, got '{pair}'", "option")
        if self["c"]:
            found.setdefault("c", []).extend(self["c"])
        return found


def is_template_file(text: str) -> bool:
    """Return whether ``--template`` names a file rather than a built-in template."""
    path = Path(text)
    return bool(path.suffix) or len(path.parts) > 1 or os.path.isfile(text)
