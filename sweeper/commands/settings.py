"""From the options of ``pareto`` and ``unlearn`` to checked settings; raises all problems together."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from search_spaces.space import Space
from sweeper.commands.common import base_spec, given_problems, output_problems, source_problems, spec_problems
from sweeper.commands.errors import Problems
from sweeper.commands.options import read_method_options
from sweeper.objectives import DEFAULT_OBJECTIVES, ObjectiveError, parse_objectives
from sweeper.settings import SweepSettings
from sweeper.study import SAMPLERS
from sweeper.tracking.uri import absolute_uri, tracking_problem
from trainables.methods import method_names, option_names, parse_method
from trainables.models import MODELS, local_model
from trainables.spec import SPEC_FIELDS, TrialSpec

DEFAULT_METHODS = ("gdiff", "ngdiff")
DEFAULT_TRIALS = 16
DEFAULT_TRACKING = "sqlite:///mlflow.db"
_SHARED_FIELDS = (
    *("model", "model_path", "target_path", "dataset", "data_dir", "forget_split", "limit", "max_length"),
    *("target_epochs", "target_lr", "target_batch_size", "target_key", "seed"),
)
"""Fields a space may not vary: all trials of a sweep share one target, and seeds have their own option."""


def single_spec(given: Mapping[str, Any]) -> TrialSpec:
    """The spec of one run.

    Raises:
        Problems: everything that is wrong with the options, the model and the data.
    """
    problems = given_problems() + output_problems(given["out"])
    options = _method_options(given, [] if given.get("c") is None else [given["c"]], problems)
    for name, values in options.items():
        if len(values) > 1:
            problems.append(f"option {name} is given {len(values)} times; one run takes one value")
    spec = base_spec(given, problems)
    info = MODELS.get(spec.model) or local_model(spec.model)
    spec = replace(
        spec,
        lr=given["lr"] if given.get("lr") is not None else info.lr,
        auto_lr=given["auto_lr"],
        seed=given["seed"] if given.get("seed") is not None else 0,
    )
    method = given["method"]
    problems += spec_problems(spec, (method,), options)
    if not problems:
        problems += source_problems(spec)
    if problems:
        raise Problems(problems)
    chosen = parse_method(method).resolve({name: values[0] for name, values in options.items()})
    return replace(spec, method=method, options=tuple(sorted(chosen.items())))


def sweep_settings(given: Mapping[str, Any], *, command: str) -> SweepSettings:
    """The settings of a sweep.

    Raises:
        Problems: everything that is wrong with the options, the space, the model, the data and the tracking store.
    """
    problems = given_problems() + output_problems(given["out"])
    methods = tuple(dict.fromkeys(given["method"])) or DEFAULT_METHODS
    options = _method_options(given, [value for value in given["c"] if value is not None], problems)
    rates = [value for value in given["lr"] if value is not None]
    base = replace(base_spec(given, problems), seed=given["seed"] or 0)
    problems += [
        f"lr must be a finite number greater than 0, got {rate:g}" for rate in rates if not 0 < rate < math.inf
    ]
    if given["auto_lr"] not in ("off", "on", "both"):
        problems.append(f"unknown auto_lr '{given['auto_lr']}': expected off, on or both")
    problems += spec_problems(base, () if _is_file(given["space"]) else methods, options)
    problems += _number_problems(given)
    if given["sampler"] not in SAMPLERS:
        problems.append(f"unknown sampler '{given['sampler']}': expected one of {', '.join(SAMPLERS)}")
    try:
        parse_objectives(given["objectives"] or DEFAULT_OBJECTIVES)
    except ObjectiveError as error:
        problems.append(str(error))
    uri = given["tracking_uri"] or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING
    space = None
    if not problems:
        space = _space(given, methods, base, options, rates, problems)
    if not problems:
        problems += source_problems(base)
    if not problems:
        problems += [problem] if (problem := tracking_problem(uri)) else []
    trials = given["trials"]
    if space is not None and given["sampler"] == "grid":
        trials = _grid_trials(space, trials, given["seeds"] or 1, problems)
    if problems or space is None:
        raise Problems(problems)
    return SweepSettings(
        name="-".join(["pareto", *methods[:3], base.model, base.dataset]).replace("+", "_").replace("/", "_"),
        base=base,
        space=space,
        trials=trials or DEFAULT_TRIALS,
        sampler=given["sampler"],
        seeds=given["seeds"] or 1,
        seed=given["seed"] or 0,
        objectives=given["objectives"] or DEFAULT_OBJECTIVES,
        cpus_per_trial=given["cpus_per_trial"] if given["cpus_per_trial"] is not None else 1.0,
        gpus_per_trial=_gpus(given),
        max_concurrent=given["max_concurrent"],
        address=given["address"],
        storage=str(Path(given["storage"]).resolve()) if given["storage"] else None,
        tracking_uri=absolute_uri(uri),
        experiment=given["experiment"],
        time_budget_seconds=given["time_budget"],
        command=command,
    )


def _is_file(space: str | None) -> bool:
    from search_spaces.named import SPACES

    return space is not None and space not in SPACES


def _method_options(given: Mapping[str, Any], c: Sequence[float], problems: list[str]) -> dict[str, list[float]]:
    options = read_method_options(given["option"], problems)
    if c:
        options.setdefault("c", []).extend(c)
    return options


def _space(
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

    info = MODELS.get(base.model) or local_model(base.model)
    keys = {
        name: tuple(f"{owner}.{option.name}" for owner, option in parse_method(name).owned_options())
        for name in methods
    }
    values = {key: tuple(options[key.rpartition(".")[2]]) for key in _all(keys) if key.rpartition(".")[2] in options}
    chosen = given["space"] or "default"
    try:
        if chosen in SPACES:
            space = named_space(
                chosen,
                methods=keys,
                lr=tuple(rates),
                auto_lr=given["auto_lr"],
                options=values,
                lr_range=info.lr_range,
            )
            # What was asked for on the command line wins over a named grid's own settings.
            kept = {
                name: value for name, value in space.constants.items() if given.get(name) in (None, (), "off", "on")
            }
            return replace(space, constants=kept)
        return _user_space(given, base, problems)
    except SpaceError as error:
        problems += error.problems
        return None


def _user_space(given: Mapping[str, Any], base: TrialSpec, problems: list[str]) -> Space:
    """A space file, checked against what a trial's spec accepts."""
    from search_spaces.parameters import Choice
    from search_spaces.user_yaml import load_space
    from search_spaces.values import plain_name

    path = Path(given["space"])
    space = load_space(path, known=_searchable_names(), kinds=_kinds())
    names = {parameter.name for parameter in space.parameters} | set(space.constants)
    for name in ("method", "lr", "c", "option"):
        if given[name] and name in names | {"option"}:
            problems.append(f"--{name} and --space {path} exclude each other: put {name} into the file")
    if "method" not in names:
        problems.append(f"{path}: it must say which methods to search: method: [gdiff, ngdiff]")
    tried = [(key, value) for key, value in space.constants.items()]
    for parameter in space.parameters:
        ends = parameter.values if isinstance(parameter, Choice) else (parameter.low, parameter.high)
        tried += [(parameter.key, value) for value in ends]
    methods = [str(value) for key, value in tried if key == "method"]
    known = set(base.problems())
    for key, value in tried:
        name = plain_name(key)
        if name == "method":
            problems += [f"{path}: {problem}" for problem in spec_problems(base, (str(value),), {})]
        elif name in option_names():
            found = spec_problems(base, methods, {name: [float(value)]})  # type: ignore[arg-type]
            problems += [f"{path}: {problem}" for problem in found]
        else:
            change: dict[str, Any] = {name: value}
            changed = replace(base, **change)
            problems += [f"{path}: {problem}" for problem in changed.problems() if problem not in known]
    problems[:] = list(dict.fromkeys(problems))
    return space


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


def _grid_trials(space: Space, trials: int | None, seeds: int, problems: list[str]) -> int | None:
    try:
        size = len(space.grid()) * seeds
    except ValueError as error:
        problems.append(f"--sampler grid: {error}")
        return None
    if trials is not None and trials > size:
        problems.append(f"--trials {trials} is more than the grid has: {size}")
    return trials if trials is not None else size


def _number_problems(given: Mapping[str, Any]) -> list[str]:
    found = []
    for name in ("trials", "seeds", "max_concurrent"):
        if given[name] is not None and given[name] < 1:
            found.append(f"{name.replace('_', '-')} must be at least 1, got {given[name]}")
    if given["cpus_per_trial"] is not None and not given["cpus_per_trial"] > 0:
        found.append(f"cpus-per-trial must be greater than 0, got {given['cpus_per_trial']:g}")
    gpus = given["gpus_per_trial"]
    if gpus is not None and (gpus < 0 or (gpus > 1 and gpus != int(gpus))):
        found.append(f"gpus-per-trial must be a fraction of one GPU or a whole number of GPUs, got {gpus:g}")
    if given["time_budget"] is not None and not given["time_budget"] > 0:
        found.append(f"time-budget must be greater than 0 seconds, got {given['time_budget']:g}")
    return found


def _gpus(given: Mapping[str, Any]) -> float:
    """What was asked for; else 1 on a machine that has a GPU, so that a default sweep uses it."""
    if given["gpus_per_trial"] is not None:
        return float(given["gpus_per_trial"])
    if given["address"]:
        return 0.0
    return 1.0 if Path("/dev/nvidia0").exists() else 0.0
