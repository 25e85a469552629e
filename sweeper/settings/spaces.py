"""Build the search space of a sweep, and check the values in the space."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from search_spaces.builtin import SPACES, Methods, OptionValues
from search_spaces.fields import Field
from search_spaces.messages import did_you_mean
from search_spaces.parameters import Choice, Parameter
from search_spaces.space import Space, SpaceError
from search_spaces.user_yaml import load_space
from search_spaces.values import Value, plain_name
from search_spaces.yaml_nodes import load
from sweeper.settings.sources import Options
from trainables.methods import OPTIONS, MethodError, option_names, options_by_method, parse_method
from trainables.metrics.registry import unknown_names
from trainables.models.registry import find_model
from trainables.optimizers import LR_FREE, LR_FREE_LR, LR_FREE_RANGE, OPTIMIZERS
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import method_problems, trial_problems

_JOINT_FIELDS = (
    tuple(item.name for item in FIELDS.values() if item.role == "method"),
    ("optimizer", "auto_lr", "lr", *(item.name for item in FIELDS.values() if "optimizer" in item.when)),
)
"""Groups of fields whose combinations of values are checked. All other fields are checked one by one."""


def is_space_file(space: str | None) -> bool:
    """Return whether ``--space`` names a file rather than a built-in space."""
    return space is not None and space not in SPACES


def spec_problems(spec: TrialSpec, methods: Sequence[str], options: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Return the problems with a spec, with each method, and with the values of method options.

    An option that applies to none of the methods is a problem. The result maps each problem to the name of the option
    that causes the problem, or to "" if the problem may have several causes.
    """
    found: dict[str, str] = {}
    known = []
    for name in methods:
        try:
            known.append(parse_method(name))
        except MethodError as error:
            found[str(error)] = "method"
    for option, values in options.items():
        # If no method is valid, check the values against all options with this name.
        having = [method.options for method in known] or [{item.name: item} for item in OPTIONS.values()]
        described = [own[option] for own in having if option in own]
        if known and not described:
            near = did_you_mean(option, {name for own in having for name in own})
            found[f"option {option} does not apply to {', '.join(methods)}{near and f'; {near}'}"] = option
        wrong = (item.problem(value) for item in described for value in values)
        found |= dict.fromkeys(filter(None, wrong), option)
    found |= dict.fromkeys(unknown_names(spec.metrics), "metrics")
    # The methods are checked separately, so gd replaces them here: gd has no options and accepts any retain objective.
    others = trial_problems(replace(spec, method="gd", options=()))
    others += [text for method in known for text in method_problems(spec, method)]
    return found | {text: "" for text in others if text not in found}


def values_by_key(methods: Methods, options: Mapping[str, Sequence[float]]) -> OptionValues:
    """Convert a mapping with plain names (``beta``) to a mapping with keys (``npo.beta``).

    The values of a plain name apply to all keys with this name that a method in ``methods`` has.
    """
    keys = [key for applying in methods.values() for key in applying]
    return {key: options[plain_name(key)] for key in keys if plain_name(key) in options}


def read_space(options: Options, base: TrialSpec) -> Space | None:
    """Return the search space, or None if a problem prevents building the space.

    Values that were given as options replace those of a built-in space.
    """
    chosen, rates, auto_lr = options["space"], options["lr"], options["auto_lr"]
    if is_space_file(chosen):
        given = [name for name in ("method", "c", "option") if options.raw.get(name)]
        given += ["lr"] * (len(rates) > 1) + ["auto_lr"] * (auto_lr == "both")
        fixed = ["lr"] * (len(rates) == 1) + ["auto_lr"] * (auto_lr == "on")
        started = replace(base, auto_lr="on") if auto_lr == "on" else base
        space, problems = file_space(Path(chosen), started, given=given, fixed=fixed)
        options.extend(problems, "space")
        return space
    if options.problems:
        return None
    lr_free = base.optimizer in LR_FREE
    methods = options_by_method(options["method"])
    # The paper's rates are for Adam; learning-rate-free optimizers have their own published rate.
    own_rate = (LR_FREE_LR,) if chosen == "paper" and lr_free else ()
    try:
        space = SPACES[chosen or "default"](
            methods=methods,
            lr=rates or own_rate,
            auto_lr=auto_lr,
            options=values_by_key(methods, options.method_options),
            lr_range=LR_FREE_RANGE if lr_free else find_model(base.model).lr_range,
        )
    except SpaceError as error:
        options.extend(error.problems)
        return None
    fixed = [name for name in FIELDS if name not in ("method", "lr", "auto_lr", "seed") and options.explicit(name)]
    return replace(space, constants={key: value for key, value in space.constants.items() if key not in fixed})


def file_space(
    path: Path, base: TrialSpec, *, given: Collection[str] = (), fixed: Collection[str] = ()
) -> tuple[Space, list[str]]:
    """Return the search space in a YAML file, without its invalid parameters, and the problems with the file.

    Args:
        given: names of given options that are mutually exclusive with a space file.
        fixed: names of given options that are mutually exclusive with a space file that sets the same field.
    """
    space, problems = load_space(path, space_fields())
    names = {*(parameter.name for parameter in space.parameters), *map(plain_name, space.constants)}
    if "method" not in names and not problems:
        problems.append(f"{path}: the file must list the methods to search, such as method: [gdiff, ngdiff]")
    for name in (*given, *(name for name in fixed if name in names)):
        flag = name.replace("_", "-")
        problems.append(f"--{flag} and --space {path} are mutually exclusive: put {name} into the file")
    if found := {**_value_problems(space, base), **dict.fromkeys(_rate_problems(space), ("optimizer",))}:
        lines = load(path)[1]
        # A problem that several parameters cause together is reported at the last of their lines.
        problems += [f"{path}:{max(lines[key] for key in keys)}: {text}" for text, keys in found.items()]
    return space, problems


def space_fields() -> dict[str, Field]:
    """Return the fields that a space file may set.

    A method option is listed under its key (``npo.beta``) and under its plain name (``beta``).
    """
    plain = {item.name: Field(item.name, None, item.help, kind=item.kind) for item in OPTIONS.values()}
    return {**plain, **OPTIONS, **FIELDS}


def tries_auto_lr(space: Space, otherwise: str) -> bool:
    """Return whether any trial may use AutoLR. ``otherwise`` is the value if the space does not set ``auto_lr``."""
    return space.constants.get("auto_lr", otherwise) != "off" or any(
        item.name == "auto_lr" for item in space.parameters
    )


def _value_problems(space: Space, base: TrialSpec) -> dict[str, Collection[str]]:
    """Return the problems with values of a space and with combinations of values.

    The result maps each problem to the parameters that cause it.
    """
    ends: dict[str, tuple[Value, ...]] = {key: (value,) for key, value in space.constants.items()}
    ends |= {parameter.key: _ends(parameter).values for parameter in space.parameters}
    methods = [str(value) for value in ends.get("method", ())]
    found: dict[str, Collection[str]] = dict.fromkeys(spec_problems(base, methods, {}), ("method",))
    for key, values in ends.items():
        if key in OPTIONS or key in option_names():
            options = {plain_name(key): [float(str(value)) for value in values]}
            found = dict.fromkeys(spec_problems(base, methods, options), (key,)) | found
    alone = [(name,) for name in FIELDS if not any(name in group for group in _JOINT_FIELDS)]
    for group in (*_JOINT_FIELDS, *alone):
        for config in _corners(space, group).grid():
            change: dict[str, Any] = {name: config[name] for name in group if name in config}
            for problem in trial_problems(replace(base, **change)) if change else ():
                others = {name: {key: value for key, value in change.items() if key != name} for name in change}
                causes = [name for name in others if problem not in trial_problems(replace(base, **others[name]))]
                found.setdefault(problem, causes or [*change])
    known = {*trial_problems(base), *spec_problems(base, (), {})}
    return {problem: keys for problem, keys in found.items() if problem not in known}


def _rate_problems(space: Space) -> list[str]:
    """Return a problem with the learning rates of a learning-rate-free optimizer.

    Its rates must not be below :data:`LR_FREE_RANGE`, and no other optimizer may have the same rate.
    """
    rates: dict[bool, set[object]] = {True: set(), False: set()}
    for config in _corners(space, ("optimizer", "lr")).grid():
        if (optimizer := config.get("optimizer")) in OPTIMIZERS:
            rates[optimizer in LR_FREE].add(config.get("lr"))
    small = [lr for lr in rates[True] if lr is None or float(str(lr)) < LR_FREE_RANGE[0]]
    if not (wrong := small or [*rates[True] & rates[False]]):
        return []
    got = "not given" if wrong[0] is None else wrong[0]
    return [
        f"the learning-rate-free optimizers {', '.join(LR_FREE)} multiply lr by a step length that they compute "
        f"(their authors use lr 1), but lr is {got}; give these optimizers their own sweep, or their own lr with "
        "'when: {optimizer: [...]}'"
    ]


def _corners(space: Space, names: Collection[str]) -> Space:
    """Return a space of the named parameters and those in their conditions. Each range is replaced by its two ends."""
    wanted = {parameter.key for parameter in space.parameters if parameter.name in names}
    for parameter in reversed(space.parameters):  # a condition refers only to earlier parameters
        if parameter.key in wanted:
            wanted |= set(parameter.when)
    return Space(tuple(_ends(item) for item in space.parameters if item.key in wanted), space.constants)


def _ends(parameter: Parameter) -> Choice:
    if isinstance(parameter, Choice):
        return parameter
    return Choice(parameter.name, (parameter.low, parameter.high), when=parameter.when, key=parameter.key)
