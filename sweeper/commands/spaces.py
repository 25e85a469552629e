"""The search space of a sweep, from ``--space`` and the options that narrow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from search_spaces.space import Space
from sweeper.commands.checks import spec_problems
from sweeper.commands.optimizer_choices import RELATED, optimizer_problems
from sweeper.commands.options import SPEC_OPTIONS
from trainables.methods import method_names, option_names, parse_method
from trainables.models.registry import find_model
from trainables.run.optimizers import LR_FREE, LR_FREE_LR, LR_FREE_RANGE
from trainables.spec import SPEC_FIELDS, TrialSpec

_SHARED_FIELDS = (
    *("model", "model_path", "target_path", "dataset", "data_dir", "forget_split", "limit", "max_length"),
    *("target_epochs", "target_lr", "target_batch_size", "target_key", "seed"),
)
"""Fields a space may not vary: all trials of a sweep share one target, and seeds have their own option."""


def is_space_file(space: str | None) -> bool:
    """Whether ``--space`` names a file rather than a built-in space."""
    from search_spaces.named import SPACES

    return space is not None and space not in SPACES


def sweep_space(
    given: Mapping[str, Any],
    methods: Sequence[str],
    base: TrialSpec,
    options: Mapping[str, Sequence[float]],
    rates: Sequence[float],
    problems: list[str],
) -> Space | None:
    """The space ``--space`` names or describes; None and problems where it cannot be used."""
    from search_spaces.errors import SpaceError
    from search_spaces.named import SPACES, named_space

    chosen = given["space"] or "default"
    try:
        if chosen in SPACES:
            info = find_model(base.model)
            keys = {
                name: tuple(f"{owner}.{option.name}" for owner, option in parse_method(name).owned_options())
                for name in methods
            }
            values = {
                key: tuple(options[key.rpartition(".")[2]]) for key in _all(keys) if key.rpartition(".")[2] in options
            }
            # The paper's rates are Adam's; a learning-rate-free optimizer has its own, published one.
            own_rate = (LR_FREE_LR,) if chosen == "paper" and base.optimizer in LR_FREE else ()
            space = named_space(
                chosen,
                methods=keys,
                lr=tuple(rates) or own_rate,
                auto_lr=given["auto_lr"],
                options=values,
                lr_range=LR_FREE_RANGE if base.optimizer in LR_FREE else info.lr_range,
            )
            # What was asked for on the command line wins over a named grid's own settings.
            asked = {name for name in SPEC_OPTIONS if given.get(name) is not None}
            kept = {name: value for name, value in space.constants.items() if name not in asked}
            return replace(space, constants=kept)
        return _user_space(given, base, rates, problems)
    except SpaceError as error:
        problems += error.problems
        if is_space_file(given["space"]) and error.space is not None:
            problems += _value_problems(Path(given["space"]), error.space, base)
        return None


def _user_space(given: Mapping[str, Any], base: TrialSpec, rates: Sequence[float], problems: list[str]) -> Space:
    """A space file, checked against what a trial's spec accepts."""
    from search_spaces.user_yaml import load_space

    path = Path(given["space"])
    space = load_space(path, known=_searchable_names(), kinds=_kinds())
    names = {parameter.name for parameter in space.parameters} | set(space.constants)
    for name in ("method", "c", "option"):
        if given[name]:
            problems.append(f"--{name} and --space {path} exclude each other: put it into the file")
    if rates and ("lr" in names or len(rates) > 1):
        problems.append(f"--lr and --space {path} exclude each other: put lr into the file")
    if given["auto_lr"] == "both" or (given["auto_lr"] == "on" and "auto_lr" in names):
        problems.append(f"--auto-lr and --space {path} exclude each other: put auto_lr into the file")
    if "method" not in names:
        problems.append(f"{path}: it must say which methods to search: method: [gdiff, ngdiff]")
    problems += _value_problems(path, space, base)
    problems += [f"{path}: {problem}" for problem in optimizer_problems(space, base, given["auto_lr"])]
    problems[:] = list(dict.fromkeys(problems))
    return space


def _value_problems(path: Path, space: Space, base: TrialSpec) -> list[str]:
    """What a trial's spec does not accept of the values and the ends of the ranges."""
    from search_spaces.parameters import Choice
    from search_spaces.values import plain_name

    problems: list[str] = []
    tried = [(key, value) for key, value in space.constants.items()]
    for parameter in space.parameters:
        ends = parameter.values if isinstance(parameter, Choice) else (parameter.low, parameter.high)
        tried += [(parameter.key, value) for value in ends]
    methods = [str(value) for key, value in tried if key == "method"]
    known = set(base.problems())
    for key, value in tried:
        name = plain_name(key)
        if name == "method":
            found = spec_problems(base, (str(value),), {})
            problems += [f"{path}: {problem}" for problem in found if problem not in known]
        elif name in option_names():
            found = spec_problems(base, methods, {name: [float(value)]})  # type: ignore[arg-type]
            problems += [f"{path}: {problem}" for problem in found if problem not in known]
        elif name not in RELATED:
            change: dict[str, Any] = {name: value}
            changed = replace(base, **change)
            found = changed.problems()
            if name == "retain_objective" and key in space.constants:
                found += spec_problems(changed, methods, {})
            problems += [f"{path}: {problem}" for problem in found if problem not in known]
    return problems


def _searchable_names() -> set[str]:
    """Names a space file may use: spec fields in which trials of one target can differ; options by name and key."""
    return {*SPEC_FIELDS, *option_names(), *_owned_option_keys()} - set(_SHARED_FIELDS)


def _owned_option_keys() -> set[str]:
    return {f"{owner}.{option.name}" for name in method_names() for owner, option in parse_method(name).owned_options()}


def _kinds() -> dict[str, tuple[type, ...]]:
    """The types of the spec's fields, for a space file's reader."""
    kinds: dict[str, tuple[type, ...]] = {}
    for name, hint in get_type_hints(TrialSpec).items():
        kinds[name] = tuple(get_args(hint)) or (hint,)
    del kinds["options"]
    return kinds | dict.fromkeys((*option_names(), *_owned_option_keys()), (float,))


def _all(keys: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(key for applying in keys.values() for key in applying))


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
