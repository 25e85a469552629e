"""Build the search space of a sweep, and check the values in the space."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from search_spaces.builtin import PAPER, SPACES, Methods, OptionValues
from search_spaces.common.fields import Field
from search_spaces.common.messages import expected_one_of
from search_spaces.common.values import Value, plain_name
from search_spaces.parameters import Choice, Parameter
from search_spaces.space import Space
from search_spaces.user_yaml import load_space
from search_spaces.yaml_nodes import load
from sweeper.settings.fields import fields_of
from sweeper.settings.options import FACTORS, SweepOptions
from sweeper.settings.reading import Problem, method_options, trial_values
from sweeper.settings.sources import Options
from trainables.methods import OPTIONS, MethodError, option_names, options_by_method, parse_method
from trainables.metrics.registry import unknown_names
from trainables.models.registry import find_model
from trainables.optimizers import LR_FREE, LR_FREE_LR, LR_FREE_RANGE, OPTIMIZERS
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import method_problems, trial_problems

_METHOD_FIELDS = tuple(item.name for item in FIELDS.values() if item.role == "method")
_STEP_FIELDS = tuple(item.name for item in FIELDS.values() if {"optimizer", "update"} & set(item.when))
_JOINT_FIELDS = ((*_METHOD_FIELDS, "update"), ("optimizer", "update", "auto_lr", "lr", *_STEP_FIELDS))
"""Groups of fields whose combinations of values are checked. All other fields are checked one by one."""


ANY_METHOD = "gdiff"
"""A method that can be combined with every setting. It replaces methods that are checked separately."""


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
    method_options = [item for method in parsed_methods for item in method.options.values()]
    # If no method is valid, check the values against all options with the same name.
    known_options = method_options if parsed_methods else list(OPTIONS.values())
    for option, values in options.items():
        fields = [item for item in known_options if item.name == option]
        if parsed_methods and not fields:
            names = sorted({item.name for item in known_options})
            expected = expected_one_of(option, names) if names else "no method of the sweep has options"
            problems[f"option {option} does not apply to {', '.join(methods)}: {expected}"] = option
        value_problems = [item.problem(value) for item in fields for value in values]
        problems |= {problem: option for problem in value_problems if problem is not None}
    problems |= dict.fromkeys(unknown_names(spec.metrics), "metrics")
    other_problems = trial_problems(replace(spec, method=ANY_METHOD, options=()))
    other_problems += [text for method in parsed_methods for text in method_problems(spec, method)]
    return problems | {text: "" for text in other_problems if text not in problems}


def values_by_key(methods: Methods, options: Mapping[str, Sequence[float]]) -> OptionValues:
    """Convert a mapping with plain names (``beta``) to a mapping with keys (``npo.beta``).

    The values of a plain name apply to all keys with this name that a method in ``methods`` has.
    """
    keys = [key for fields in methods.values() for key in fields]
    return {key: options[plain_name(key)] for key in keys if plain_name(key) in options}


def built_in_space(options: SweepOptions, base: TrialSpec) -> Space:
    """Return a built-in search space, in which the given options replace values.

    Raises:
        SpaceError: the given values do not fit the space.
    """
    lr_free = base.optimizer in LR_FREE
    methods = options_by_method(options.method)
    # The paper's rates are for Adam; learning-rate-free optimizers have their own published rate.
    default_rates = (LR_FREE_LR,) if options.space == PAPER and lr_free else ()
    space = SPACES[options.space or "default"](
        methods=methods,
        lr=options.lr or default_rates,
        auto_lr=options.auto_lr,
        settings=searched_settings(options, base, options.auto_lr),
        options=values_by_key(methods, method_options(options.option, options.c)),
        lr_range=LR_FREE_RANGE if lr_free else find_model(base.model).lr_range,
    )
    single = [name for name in FACTORS if len(getattr(options, name)) == 1]
    fixed = [*single, *(name for name in trial_values(options) if name not in ("auto_lr", "seed"))]
    return replace(space, constants={key: value for key, value in space.constants.items() if key not in fixed})


def read_space_file(options: SweepOptions, path: Path, base: TrialSpec) -> tuple[Space, list[str]]:
    """Return the search space in the file of ``--space``, and the problems with the file and the given options."""
    repeated = {name: getattr(options, name) for name in ("lr", "auto_lr", *FACTORS) if name in options.raw}
    exclusive = [name for name in ("method", "c", "option") if name in options.raw]
    exclusive += [name for name, values in repeated.items() if len(values) > 1]
    fixed = [name for name, values in repeated.items() if len(values) == 1]
    return file_space(path, base, exclusive=exclusive, fixed=fixed)


def file_space(
    path: Path, base: TrialSpec, *, exclusive: Collection[str] = (), fixed: Collection[str] = ()
) -> tuple[Space, list[str]]:
    """Return the search space in a YAML file, without its invalid parameters, and the problems with the file.

    Args:
        exclusive: names of given options that are mutually exclusive with a space file.
        fixed: names of given options that are mutually exclusive with a space file that sets the same field.
    """
    space, problems = load_space(path, space_fields())
    space_names = {item.name for item in space.parameters} | {plain_name(key) for key in space.constants}
    if "method" not in space_names and not problems:
        problems.append(f"{path}: the file must list the methods to search, such as method: [gdiff, ngdiff]")
    for name in [*exclusive, *(name for name in fixed if name in space_names)]:
        flag = name.replace("_", "-")
        problems.append(f"--{flag} and --space {path} are mutually exclusive: put {name} into the file")
    keys_by_problem = _value_problems(space, base)
    keys_by_problem |= dict.fromkeys(_rate_problems(space), ("optimizer",))
    if keys_by_problem:
        _, lines = load(path)
        for problem, keys in keys_by_problem.items():
            # A problem that several parameters cause together is reported at the last of their lines.
            line = max(lines[key] for key in keys)
            problems.append(f"{path}:{line}: {problem}")
    return space, problems


def space_fields() -> dict[str, Field]:
    """Return the fields that a space file may set.

    A method option is listed under its key (``npo.beta``) and under its plain name (``beta``).
    """
    plain_fields = {item.name: Field(item.name, None, item.help, kind=item.kind) for item in OPTIONS.values()}
    return {**plain_fields, **OPTIONS, **FIELDS}


def searched_settings(options: SweepOptions, base: TrialSpec, rules: Sequence[str]) -> list[Choice]:
    """Return a parameter for each setting in ``FACTORS`` that was given several values.

    A setting of AutoLR is searched only in trials with a rule for which the setting has an effect. ``rules`` are the
    values of ``auto_lr`` in the space.
    """
    probes = options.auto_lr_probe or (base.auto_lr_probe,)
    specs = [replace(base, auto_lr=rule, auto_lr_probe=probe) for rule in rules for probe in probes]
    choices: list[Choice] = []
    for name in FACTORS:
        values = tuple(dict.fromkeys(getattr(options, name)))
        effective_rules = tuple(dict.fromkeys(spec.auto_lr for spec in specs if _has_effect(name, spec)))
        if len(values) < 2 or not effective_rules:  # no_effect_problems reports an option without effect
            continue
        when: dict[str, tuple[Value, ...]] = {}
        if effective_rules != tuple(dict.fromkeys(rules)):
            when["auto_lr"] = effective_rules
        if "auto_lr_probe" in FIELDS[name].when and len(probes) > 1:
            when["auto_lr_probe"] = FIELDS[name].when["auto_lr_probe"]
        choices.append(Choice(name, values, when=when))
    return choices


def condition_specs(space: Space, base: TrialSpec) -> list[TrialSpec]:
    """Return a spec for each combination of values of ``auto_lr``, ``auto_lr_probe`` and ``update`` in the space."""
    names = ("auto_lr", "auto_lr_probe", "update")
    configs = _corners(space, names).grid()
    changes: list[dict[str, Any]] = [{name: config[name] for name in names if name in config} for config in configs]
    return [replace(base, **values) for values in changes]


def no_effect_problems(options: Options, specs: Sequence[TrialSpec], *, is_file: bool = False) -> list[Problem]:
    """Return a problem for each option of AutoLR or of an update that the user typed and that affects no spec.

    ``is_file`` is whether the rules are in a space file.
    """
    problems = []
    is_off = all(spec.auto_lr == "off" for spec in specs)
    for name, field in fields_of(type(options)).items():
        is_checked = field.scope == "trial" and (field.role == "auto_lr" or "update" in field.when)
        is_typed = is_checked and name != "auto_lr" and options.is_typed(name)
        if not is_typed or any(_has_effect(name, spec) for spec in specs):
            continue
        if is_off and field.role == "auto_lr":
            remedy = "put a rule into the space file, such as auto_lr: gen" if is_file else "give --auto-lr gen"
            text = f"{field.flag} has no effect, because AutoLR is off; to use AutoLR, {remedy}"
        else:
            *_, (condition, required) = field.when.items()  # the last condition is stricter than having a rule
            affected = [spec for spec in specs if field.role != "auto_lr" or spec.auto_lr != "off"]
            got = ", ".join(dict.fromkeys(str(getattr(spec, condition)) for spec in affected))
            text = f"{field.flag} applies only to {FIELDS[condition].flag} {' or '.join(required)}, got {got}"
        problems.append(Problem(text, name))
    return problems


def _has_effect(name: str, spec: TrialSpec) -> bool:
    return FIELDS[name].has_effect(spec.values())


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
            # A problem that occurs without this option keeps its causes.
            causes_by_problem = dict.fromkeys(spec_problems(base, methods, options), (key,)) | causes_by_problem
    single_fields = [(name,) for name in FIELDS if not any(name in group for group in _JOINT_FIELDS)]
    for group in (*_JOINT_FIELDS, *single_fields):
        for config in _corners(space, group).grid():
            changes: dict[str, Any] = {name: config[name] for name in group if name in config}
            if changes:
                for problem in trial_problems(replace(base, **changes)):
                    causes_by_problem.setdefault(problem, _causes(problem, base, changes))
    base_problems = {*trial_problems(base), *spec_problems(base, (), {})}
    return {problem: keys for problem, keys in causes_by_problem.items() if problem not in base_problems}


def _causes(problem: str, base: TrialSpec, changes: Mapping[str, Any]) -> list[str]:
    """Return the fields whose change is necessary for the problem; all changed fields if no single change is."""
    causes = []
    for name in changes:
        other_changes = {key: value for key, value in changes.items() if key != name}
        if problem not in trial_problems(replace(base, **other_changes)):
            causes.append(name)
    return causes or list(changes)


def _rate_problems(space: Space) -> list[str]:
    """Return a problem with the learning rates of a learning-rate-free optimizer.

    Its rates must not be below :data:`LR_FREE_RANGE`, and no other optimizer may have the same rate.
    """
    pairs = [(config.get("optimizer"), config.get("lr")) for config in _corners(space, ("optimizer", "lr")).grid()]
    lr_free_rates = {lr for optimizer, lr in pairs if optimizer in LR_FREE}
    other_rates = {lr for optimizer, lr in pairs if optimizer in OPTIMIZERS and optimizer not in LR_FREE}
    small_rates = [lr for lr in lr_free_rates if lr is None or float(str(lr)) < LR_FREE_RANGE[0]]
    invalid_rates = small_rates or list(lr_free_rates & other_rates)
    if not invalid_rates:
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
