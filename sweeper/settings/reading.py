"""Parse the given values of a command's options, and collect problems with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from search_spaces.common.fields import Field
from sweeper.settings.fields import options_of
from sweeper.settings.sources import Options, Raw, raise_if_any

AnyOptions = TypeVar("AnyOptions", bound=Options)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with the given options.

    Attributes:
        option: the name of the option that causes the problem; "" if several options do, or if the text names its file.
    """

    text: str
    option: str = ""


def about(option: str, *texts: str | None) -> list[Problem]:
    """Return a problem with the option for each text that is not None."""
    return [Problem(text, option) for text in texts if text]


def located(problems: Iterable[Problem], raw: Raw) -> list[str]:
    """Return the texts of the problems. If the value of the option is from a file, the file and line precede it."""
    texts = []
    for problem in problems:
        given_values = raw.get(problem.option, ())
        prefix = given_values[0].prefix if given_values else ""
        texts.append(f"{prefix}{problem.text}")
    return texts


def read(options_type: type[AnyOptions], raw: Raw, problems: Sequence[str] = ()) -> tuple[AnyOptions, list[Problem]]:
    """Parse the given values of a command. Return the options, and ``problems`` with the problems found here.

    An option with an invalid value has its default. An invalid field of a trial is kept if it has the right type,
    because the checks of other fields depend on it.
    """
    found = [Problem(text) for text in problems]
    values: dict[str, Any] = {}
    for name, option in options_of(options_type).items():
        parsed: list[Any] = []
        for given in raw.get(name, ()):
            try:
                value = _parse(option.field, given.value)
            except ValueError as error:
                found.append(Problem(f"{given.prefix}{error}"))
                continue
            if name != "c" and (problem := option.field.problem(value)):  # c is checked with the methods
                found.append(Problem(f"{given.prefix}{problem}"))
                if option.field.scope == "command":
                    continue
            parsed.append(value)
        if option.in_mapping and parsed:
            values.setdefault(option.attribute, {})[name] = parsed[-1]
        elif parsed:
            values[option.attribute] = tuple(parsed) if option.field.repeats else parsed[-1]
    return options_type(raw=raw, **values), found


def read_valid(options_type: type[AnyOptions], raw: Raw, problems: Sequence[str] = ()) -> AnyOptions:
    """Parse the given values of a command.

    Raises:
        Problems: a value is invalid. The exception lists all problems, including those in the argument ``problems``.
    """
    options, found = read(options_type, raw, problems)
    raise_if_any(located(found, raw))
    return options


def trial_values(options: Options) -> dict[str, Any]:
    """Return the given values of trial fields, except for options that can be repeated."""
    values = {}
    for name, option in options_of(type(options)).items():
        if option.field.scope == "trial" and not option.field.repeats and name in options.raw:
            value = getattr(options, option.attribute)
            if not option.in_mapping:
                values[name] = value
            elif name in value:
                values[name] = value[name]
    return values


def method_options(pairs: Sequence[str], c: Sequence[float]) -> dict[str, list[float]]:
    """Return the values that ``--option`` and ``--c`` give to the options of methods, by name.

    Values of ``--option`` with another format than NAME=VALUE are ignored (:func:`pair_problems` reports them).
    """
    values_by_name: dict[str, list[float]] = {}
    for pair in pairs:
        if (parsed := _parse_pair(pair)) is not None:
            values_by_name.setdefault(parsed[0], []).append(parsed[1])
    if c:
        values_by_name.setdefault("c", []).extend(c)
    return values_by_name


def pair_problems(pairs: Sequence[str]) -> list[Problem]:
    """Return a problem for each value of ``--option`` that is not NAME=VALUE."""
    wrong_pairs = [pair for pair in pairs if _parse_pair(pair) is None]
    return [
        Problem(f"--option must be NAME=VALUE with a name and a number, got '{pair}'", "option") for pair in wrong_pairs
    ]


def _parse_pair(text: str) -> tuple[str, float] | None:
    name, _, value = text.partition("=")
    try:
        return (name.strip(), float(value)) if name.strip() else None
    except ValueError:
        return None


def _parse(field: Field, text: object) -> Any:
    value = field.read(text)
    if field.name == "template" and is_template_file(value):
        if not os.path.isfile(value):
            raise ValueError(f"--template {value}: no such file; expected a file, or a name in 'list templates'")
        return Path(value).stem  # the file has already been loaded as a plug-in
    if field.name == "lora_rank" and value == 0:  # 0: train all weights, even if the model has a default rank
        return None
    return value


def is_template_file(text: str) -> bool:
    """Return whether ``--template`` names a file rather than a built-in template."""
    path = Path(text)
    return bool(path.suffix) or len(path.parts) > 1 or os.path.isfile(text)
