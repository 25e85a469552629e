"""The search space of a sweep: one with a name, narrowed by options, or a file, checked against what trials accept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from search_spaces.builtin import SPACES, Given, Methods
from search_spaces.fields import Field
from search_spaces.parameters import Choice, Parameter
from search_spaces.space import Space
from search_spaces.user_yaml import SpaceFile, load_space
from search_spaces.values import Value, plain_name
from sweeper.checks.specs import spec_problems
from sweeper.cli.options import asked
from trainables.methods import OPTIONS, option_names, options_by_method
from trainables.models.registry import find_model
from trainables.optimizers import LR_FREE, LR_FREE_LR, LR_FREE_RANGE, OPTIMIZERS
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems

_TOGETHER = (
    tuple(item.name for item in FIELDS.values() if item.role == "method"),
    ("optimizer", "auto_lr", "lr", *(item.name for item in FIELDS.values() if "optimizer" in item.when)),
)
"""Fields that are right or wrong together only; all others are looked at one by one."""


def is_space_file(space: str | None) -> bool:
    """Whether ``--space`` names a file rather than a built-in space."""
    return space is not None and space not in SPACES


def methods_and_values(methods: Sequence[str], options: Mapping[str, Sequence[float]]) -> tuple[Methods, Given]:
    """The methods with their options, and the values given for options by name under every key of that name."""
    owned = options_by_method(methods)
    keys = [key for applying in owned.values() for key in applying]
    return owned, {key: options[plain_name(key)] for key in keys if plain_name(key) in options}


def named_space(
    given: Mapping[str, Any],
    methods: Sequence[str],
    base: TrialSpec,
    options: Mapping[str, Sequence[float]],
    rates: Sequence[float],
) -> Space:
    """The built-in space the command line asks for; the values it gives replace the space's own.

    Raises:
        SpaceError: what is given does not fit the methods.
    """
    chosen = given["space"] or "default"
    lr_free = base.optimizer in LR_FREE
    owned, values = methods_and_values(methods, options)
    # The paper's rates are Adam's; a learning-rate-free optimizer has its own, published one.
    own_rate = (LR_FREE_LR,) if chosen == "paper" and lr_free else ()
    space = SPACES[chosen](
        methods=owned,
        lr=rates or own_rate,
        auto_lr=given["auto_lr"],
        options=values,
        lr_range=LR_FREE_RANGE if lr_free else find_model(base.model).lr_range,
    )
    kept = {name: value for name, value in space.constants.items() if name not in asked(given)}
    return replace(space, constants=kept)


def file_space(
    path: Path, given: Mapping[str, Any], base: TrialSpec, rates: Sequence[float]
) -> tuple[Space, list[str]]:
    """The space a file describes, as far as it can be read, and all that is wrong with it."""
    file = load_space(path, space_fields())
    problems = list(file.problems)
    names = {plain_name(key) for key in file.lines}
    for name in ("method", "c", "option"):
        if given[name]:
            problems.append(f"--{name} and --space {path} exclude each other: put it into the file")
    if rates and ("lr" in names or len(rates) > 1):
        problems.append(f"--lr and --space {path} exclude each other: put lr into the file")
    if given["auto_lr"] == "both" or (given["auto_lr"] == "on" and "auto_lr" in names):
        problems.append(f"--auto-lr and --space {path} exclude each other: put auto_lr into the file")
    if "method" not in names and file.lines:
        problems.append(f"{path}: it must say which methods to search: method: [gdiff, ngdiff]")
    if given["auto_lr"] == "on":
        base = replace(base, auto_lr="on")
    alone = [(name,) for name in FIELDS if not any(name in group for group in _TOGETHER)]
    found = [problem for group in (*_TOGETHER, *alone) for problem in _group_problems(file, base, group)]
    problems += [file.at(key, problem) for key, problem in (*_option_problems(file, base), *found)]
    problems += [file.at("optimizer", problem) for problem in _rate_problems(file)]
    return file.space, list(dict.fromkeys(problems))


def space_fields() -> dict[str, Field]:
    """What a space file may name: fields of a trial, options by key, and options by their plain name."""
    plain = {item.name: Field(item.name, None, item.help, kind=item.kind) for item in OPTIONS.values()}
    return {**plain, **OPTIONS, **FIELDS}


def grid_trials(space: Space, trials: int | None, seeds: int, problems: list[str]) -> int | None:
    """The number of trials of a grid search: what was asked for, or the whole grid for every seed."""
    try:
        size = len(space.grid()) * seeds
    except ValueError as error:
        problems.append(f"--sampler grid: {error}")
        return None
    if trials is not None and trials > size:
        problems.append(f"--trials {trials} is more than the grid has: {size}")
    return trials if trials is not None else size


def _option_problems(file: SpaceFile, base: TrialSpec) -> Iterator[tuple[str, str]]:
    """What the file's methods do not accept of the values and the ends of ranges of their options, by key."""
    ends: dict[str, tuple[Value, ...]] = {key: (value,) for key, value in file.space.constants.items()}
    ends |= {parameter.key: _ends(parameter).values for parameter in file.space.parameters}
    methods = [str(value) for value in ends.get("method", ())]
    known = set(spec_problems(base, methods, {}))
    for key, values in ends.items():
        if key in OPTIONS or key in option_names():
            found = spec_problems(base, methods, {plain_name(key): [float(str(value)) for value in values]})
            yield from ((key, problem) for problem in found if problem not in known)


def _group_problems(file: SpaceFile, base: TrialSpec, group: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with any combination of these fields, by the last in the file without which it were right."""
    if not set(group) & set(file.lines):
        return
    alone = set(trial_problems(base))
    for config in _corners(file.space, group).grid():
        change: dict[str, Any] = {name: config[name] for name in group if name in config}
        for problem in trial_problems(replace(base, **change)):
            if problem not in alone:
                others = {name: {key: value for key, value in change.items() if key != name} for name in change}
                causes = [name for name in others if problem not in trial_problems(replace(base, **others[name]))]
                yield max(causes or change, key=file.lines.__getitem__), problem


def _rate_problems(file: SpaceFile) -> list[str]:
    """Why optimizers with a learning rate of their own cannot have the file's."""
    rates: dict[bool, set[object]] = {True: set(), False: set()}
    for config in _corners(file.space, ("optimizer", "lr")).grid():
        if (optimizer := config.get("optimizer")) in OPTIMIZERS:
            rates[optimizer in LR_FREE].add(config.get("lr"))
    if rates[True] & rates[False]:
        return [
            f"one learning rate cannot serve {' or '.join(LR_FREE)}, which multiply a step of their own length (1 as "
            "published), and an optimizer whose step it is: search them in two sweeps, or give each an lr with when: "
            "{optimizer: [...]}"
        ]
    if rates[True] == {None}:
        return [f"{' or '.join(LR_FREE)} need lr: 1 here, the published multiplier of their step"]
    return []


def _corners(space: Space, names: Collection[str]) -> Space:
    """The parameters of these names, and those their conditions refer to, with a range as its two ends."""
    wanted = {parameter.key for parameter in space.parameters if parameter.name in names}
    for parameter in reversed(space.parameters):  # a condition refers to what is above it
        if parameter.key in wanted:
            wanted |= set(parameter.when)
    return Space(tuple(_ends(item) for item in space.parameters if item.key in wanted), space.constants)


def _ends(parameter: Parameter) -> Choice:
    if isinstance(parameter, Choice):
        return parameter
    return Choice(parameter.name, (parameter.low, parameter.high), when=parameter.when, key=parameter.key)
