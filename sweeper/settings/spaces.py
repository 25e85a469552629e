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
    problems: dict[str, str] = {}
    parsed_methods = []
    for name in methods:
        try:
            parsed_methods.append(parse_method(name))
        except MethodError as error:
            problems[str(error)] = "method"
    for option, values in options.items():
        # If no method is valid, check the values against all options with this name.
        option_sets = [method.options for method in parsed_methods] or [{item.name: item} for item in OPTIONS.values()]
        fields = [option_set[option] for option_set in option_sets if option in option_set]
        if parsed_methods and not fields:
            hint = did_you_mean(option, {name for option_set in option_sets for name in option_set})
            problems[f"option {option} does not apply to {', '.join(methods)}{hint and f'; {hint}'}"] = option
        value_problems = (item.problem(value) for item in fields for value in values)
        problems |= dict.fromkeys(filter(None, value_problems), option)
    problems |= dict.fromkeys(unknown_names(spec.metrics), "metrics")
    # The methods are checked separately, so gd replaces them here: gd has no options and accepts any retain objective.
    other_problems = trial_problems(replace(spec, method="gd", options=()))
    other_problems += [text for method in parsed_methods for text in method_problems(spec, method)]
    return problems | {text: "" for text in other_problems if text not in problems}


def values_by_key(methods: Methods, options: Mapping[str, Sequence[float]]) -> OptionValues:
    """Convert a mapping with plain names (``beta``) to a mapping with keys (``npo.beta``).

    The values of a plain name apply to all keys with this name that a method in ``methods`` has.
    """
    keys = [key for fields in methods.values() for key in fields]
    return {key: options[plain_name(key)] for key in keys if plain_name(key) in options}


def read_space(options: Options, base: TrialSpec) -> Space | None:
    """Return the search space, or None if a problem prevents building the space.

    Values that were given as options replace those of a built-in space.
    """
    space_name, rates, auto_lr = options["space"], options["lr"], options["auto_lr"]
    if is_space_file(space_name):
        exclusive = [name for name in ("method", "c", "option") if options.raw.get(name)]
        exclusive += ["lr"] * (len(rates) > 1) + ["auto_lr"] * (auto_lr == "both")
        fixed = ["lr"] * (len(rates) == 1) + ["auto_lr"] * (auto_lr == "on")
        auto_lr_base = replace(base, auto_lr="on") if auto_lr == "on" else base
        space, problems = file_space(Path(space_name), auto_lr_base, exclusive=exclusive, fixed=fixed)
        options.extend(problems, "space")
        return space
    if options.problems:
        return None
    lr_free = base.optimizer in LR_FREE
    methods = options_by_method(options["method"])
    # The paper's rates are for Adam; learning-rate-free optimizers have their own published rate.
    default_rates = (LR_FREE_LR,) if space_name == "paper" and lr_free else ()
    try:
        space = SPACES[space_name or "default"](
            methods=methods,
            lr=rates or default_rates,
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
    path: Path, base: TrialSpec, *, exclusive: Collection[str] = (), fixed: Collection[str] = ()
) -> tuple[Space, list[str]]:
    """Return the search space in a YAML file, without its invalid parameters, and the problems with the file.

    Args:
        exclusive: names of given options that are mutually exclusive with a space file.
        fixed: names of given options that are mutually exclusive with a space file that sets the same field.
    """
    space, problems = load_space(path, space_fields())
    space_names = {*(parameter.name for parameter in space.parameters), *map(plain_name, space.constants)}
    if "method" not in space_names and not problems:
        problems.append(f"{path}: the file must list the methods to search, such as method: [gdiff, ngdiff]")
    for name in (*exclusive, *(name for name in fixed if name in space_names)):
        flag = name.replace("_", "-")
        problems.append(f"--{flag} and --space {path} are mutually exclusive: put {name} into the file")
    if keys_by_problem := {**_value_problems(space, base), **dict.fromkeys(_rate_problems(space), ("optimizer",))}:
        lines = load(path)[1]
        # A problem that several parameters cause together is reported at the last of their lines.
        problems += [f"{path}:{max(lines[key] for key in keys)}: {text}" for text, keys in keys_by_problem.items()]
    return space, problems


def space_fields() -> dict[str, Field]:
    """Return the fields that a space file may set.

    A method option is listed under its key (``npo.beta``) and under its plain name (``beta``).
    """
    plain_fields = {item.name: Field(item.name, None, item.help, kind=item.kind) for item in OPTIONS.values()}
    return {**plain_fields, **OPTIONS, **FIELDS}


def tries_auto_lr(space: Space, default: str) -> bool:
    """Return whether any trial may use AutoLR. ``default`` is the value if the space does not set ``auto_lr``."""
    return space.constants.get("auto_lr", default) != "off" or any(item.name == "auto_lr" for item in space.parameters)


def _value_problems(space: Space, base: TrialSpec) -> dict[str, Collection[str]]:
    """Return the problems with values of a space and with combinations of values.

    The result maps each problem to the parameters that cause it.
    """
    checked_values: dict[str, tuple[Value, ...]] = {key: (value,) for key, value in space.constants.items()}
    checked_values |= {parameter.key: _ends(parameter).values for parameter in space.parameters}
    methods = [str(value) for value in checked_values.get("method", ())]
    causes_by_problem: dict[str, Collection[str]] = dict.fromkeys(spec_problems(base, methods, {}), ("method",))
    for key, values in checked_values.items():
        if key in OPTIONS or key in option_names():
            options = {plain_name(key): [float(str(value)) for value in values]}
            causes_by_problem = dict.fromkeys(spec_problems(base, methods, options), (key,)) | causes_by_problem
    single_fields = [(name,) for name in FIELDS if not any(name in group for group in _JOINT_FIELDS)]
    for group in (*_JOINT_FIELDS, *single_fields):
        for config in _corners(space, group).grid():
            changes: dict[str, Any] = {name: config[name] for name in group if name in config}
            for problem in trial_problems(replace(base, **changes)) if changes else ():
                without = {name: {key: value for key, value in changes.items() if key != name} for name in changes}
                causes = [name for name in without if problem not in trial_problems(replace(base, **without[name]))]
                causes_by_problem.setdefault(problem, causes or [*changes])
    base_problems = {*trial_problems(base), *spec_problems(base, (), {})}
    return {problem: keys for problem, keys in causes_by_problem.items() if problem not in base_problems}


def _rate_problems(space: Space) -> list[str]:
    """Return a problem with the learning rates of a learning-rate-free optimizer.

    Its rates must not be below :data:`LR_FREE_RANGE`, and no other optimizer may have the same rate.
    """
    rates_by_lr_free: dict[bool, set[object]] = {True: set(), False: set()}
    for config in _corners(space, ("optimizer", "lr")).grid():
        if (optimizer := config.get("optimizer")) in OPTIMIZERS:
            rates_by_lr_free[optimizer in LR_FREE].add(config.get("lr"))
    small_rates = [lr for lr in rates_by_lr_free[True] if lr is None or float(str(lr)) < LR_FREE_RANGE[0]]
    if not (invalid_rates := small_rates or [*rates_by_lr_free[True] & rates_by_lr_free[False]]):
        return []
    got = "not given" if invalid_rates[0] is None else invalid_rates[0]
    return [
        f"the learning-rate-free optimizers {', '.join(LR_FREE)} multiply lr by a step length that they compute "
        f"(their authors use lr 1), but lr is {got}; give these optimizers their own sweep, or their own lr with "
        "'when: {optimizer: [...]}'"
    ]


def _corners(space: Space, names: Collection[str]) -> Space:
    """Return a space of the named parameters and those in their conditions. Each range is replaced by its two ends."""
    included_keys = {parameter.key for parameter in space.parameters if parameter.name in names}
    for parameter in reversed(space.parameters):  # a condition refers only to earlier parameters
        if parameter.key in included_keys:
            included_keys |= set(parameter.when)
    return Space(tuple(_ends(item) for item in space.parameters if item.key in included_keys), space.constants)


def _ends(parameter: Parameter) -> Choice:
    if isinstance(parameter, Choice):
        return parameter
    return Choice(parameter.name, (parameter.low, parameter.high), when=parameter.when, key=parameter.key)
