"""From the options of ``pareto`` and ``unlearn`` to checked settings; raises all problems together."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from search_spaces.builtin import AUTO_LR
from search_spaces.messages import expected_one_of
from search_spaces.parameters import Choice
from search_spaces.space import Space, SpaceError
from sweeper.checks.specs import (
    base_spec,
    output_problems,
    precision_problems,
    source_problems,
    spec_problems,
)
from sweeper.cli.errors import Problems, refuse
from sweeper.cli.options import given_problems, read_method_options, without_effect
from sweeper.cli.scheduler_options import scheduler_settings
from sweeper.cli.search_options import search_options
from sweeper.cli.spaces import file_space, grid_trials, is_space_file, named_space
from sweeper.execution.placement import address_problem
from sweeper.search.samplers import SAMPLERS
from sweeper.search.schedulers import NONE
from sweeper.settings.objectives import (
    DEFAULT_OBJECTIVES,
    Objective,
    ObjectiveError,
    parse_objectives,
    unmeasured,
    with_objectives,
)
from sweeper.settings.resources import AUTO, gpus_here
from sweeper.settings.sweep_settings import CANDIDATES, FRONT_METRICS, LAST, SweepSettings
from sweeper.settings.tracking_uri import absolute_uri, tracking_problem
from trainables.methods import parse_method
from trainables.metrics.registry import LOSS_METRICS
from trainables.models.registry import find_model
from trainables.optimizers import LR_FREE, LR_FREE_LR
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems
from trainables.storage import address_problem as address_problem_of_storage
from trainables.storage import is_address, storage_problem

DEFAULT_METHODS = ("gdiff", "ngdiff")
DEFAULT_TRIALS = {True: 16, False: 32}
"""Where trials are whole, and where a scheduler ends most of them after an epoch or two."""
_GRID = 1000
"""Points of a product of lists that are counted, of which conditions may leave few."""
DEFAULT_TRACKING = "sqlite:///mlflow.db"
_AS_GIVEN = ("sampler", "seeds", "seed", "cpus_per_trial", "max_concurrent", "address", "experiment")


def single_spec(given: Mapping[str, Any]) -> TrialSpec:
    """The spec of one run.

    Raises:
        Problems: everything that is wrong with the options, the model and the data.
    """
    problems = given_problems() + output_problems(given["out"])
    if given.get("landscape") is not None:
        if given["landscape"] < 3:
            problems.append(f"--landscape must be at least 3 points, got {given['landscape']}")
        if given["auto_lr"] != "on" or given["out"] is None:
            problems.append("--landscape needs --auto-lr on, whose steps it follows, and --out DIR for landscape.csv")
    options = read_method_options(given, problems)
    several = {f"option {name}": values for name, values in options.items()}
    several |= {f"--{name}": given[name] for name in ("method", "lr")}
    for title, values in several.items():
        if len(values) > 1:
            problems.append(
                f"{title} is given {len(values)} times; one run takes one value ('pareto' searches among several)"
            )
    spec = base_spec(given, problems)
    spec = replace(
        spec,
        lr=given["lr"][0] if given["lr"] else _default_lr(spec),
        auto_lr=given["auto_lr"],
        seed=given["seed"] or 0,
    )
    methods = tuple(dict.fromkeys(given["method"])) or (FIELDS["method"].default,)
    problems += spec_problems(spec, methods, options)
    if not problems and spec.auto_lr == "off":
        problems += without_effect("auto_lr", "AutoLR is off; give --auto-lr on, too")
    problems += source_problems(spec, ask_hub=not problems)
    problems += precision_problems(spec, gpus=gpus_here(), others=problems)
    refuse(problems)
    method = methods[0]
    chosen = parse_method(method).resolve({name: values[0] for name, values in options.items()})
    return replace(spec, method=method, options=tuple(sorted(chosen.items())))


def sweep_settings(given: Mapping[str, Any], *, command: str) -> SweepSettings:
    """The settings of a sweep.

    Raises:
        Problems: everything that is wrong with the options, the space, the model, the data and the tracking store.
    """
    problems = given_problems() + output_problems(given["out"])
    methods = tuple(dict.fromkeys(given["method"])) or DEFAULT_METHODS
    options = read_method_options(given, problems)
    rates = [*given["lr"]]
    base = replace(base_spec(given, problems), seed=given["seed"] or 0)
    problems += [problem for rate in rates if (problem := FIELDS["lr"].problem(rate))]
    if given["auto_lr"] not in AUTO_LR:
        problems.append(f"unknown auto_lr '{given['auto_lr']}': expected off, on or both")
    if given["auto_lr"] in ("on", "both"):
        problems += trial_problems(replace(base, auto_lr="on", method="gd", options=()))
    problems += spec_problems(base, () if is_space_file(given["space"]) else methods, options)
    problems += _number_problems(given) + _choice_problems(given)
    space = _space(given, methods, base, options, rates, problems)
    if space and not _tries_auto_lr(space, given["auto_lr"]):
        where = "put auto_lr: on into the file" if is_space_file(given["space"]) else "give --auto-lr on or both"
        problems += without_effect("auto_lr", f"AutoLR is off; {where}, too")
    given = _whole_if_small(given, space)
    objectives, base = _objectives(given, base, problems)
    costly = base.metrics_every != 1 and not {item.column for item in objectives} <= set(LOSS_METRICS)
    scheduling, wrong = scheduler_settings(given, epochs=base.epochs, eval_every=base.eval_every, blind=costly)
    problems += wrong
    uri = given["tracking_uri"] or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING
    problems += [problem for problem in (tracking_problem(uri), address_problem(given["address"])) if problem]
    problems += source_problems(base, ask_hub=not problems)
    trials = given["trials"]
    if not problems and space is not None and given["sampler"] == "grid":
        trials = grid_trials(space, trials, given["seeds"], problems)
    problems += (search := search_options(given, base=base, space=space, trials=trials, scheduling=scheduling)).problems
    elsewhere = given["address"] is not None  # the nodes of a cluster may have other CPUs
    gpus = _gpus(given)
    here = gpus_here() if gpus == AUTO else gpus
    problems += precision_problems(base, gpus=1.0 if elsewhere else float(here), others=problems)
    if not problems and is_address(given["storage"]):  # it is the slowest to answer
        problems += filter(None, [storage_problem(given["storage"])])
    if problems or space is None:
        raise Problems(problems)
    return SweepSettings(
        name="-".join(["pareto", *methods[:3], base.model, base.dataset]).replace("+", "_").replace("/", "_"),
        # What a space leaves open is the command line's.
        base=replace(
            base,
            lr=rates[0] if rates else _default_lr(base),
            auto_lr="on" if given["auto_lr"] == "on" else "off",
        ),
        space=space,
        ship=not given.get("no_ship"),
        trials=trials or search.trials or DEFAULT_TRIALS[scheduling["scheduler"] == NONE],
        objectives=given["objectives"] or DEFAULT_OBJECTIVES,
        gpus_per_trial=gpus,
        storage=_storage(given["storage"]),
        tracking_uri=absolute_uri(uri),
        time_budget_seconds=given["time_budget"],
        command=command,
        candidates=given.get("candidates", LAST),
        **search.settings,
        **scheduling,
        front_metrics=FRONT_METRICS if given.get("front_metrics") is None else given["front_metrics"],
        **{name: given[name] for name in _AS_GIVEN},
    )


def _whole_if_small(given: Mapping[str, Any], space: Space | None) -> Mapping[str, Any]:
    """Where nobody says how many trials, a space of a few points is visited whole: more would only repeat them."""
    told = given["trials"] is not None or any(given.get(name) for name in ("enqueue", "warm_start", "epoch_budget"))
    source = click.get_current_context().get_parameter_source("sampler")
    if space is None or told or source not in (None, ParameterSource.DEFAULT):
        return given
    sizes = [len(item.values) if isinstance(item, Choice) else math.inf for item in space.parameters]
    few = math.prod(sizes) <= _GRID and len(space.grid()) <= min(DEFAULT_TRIALS.values())
    return {**given, "sampler": "grid"} if few else given


def _tries_auto_lr(space: Space, otherwise: str) -> bool:
    """Whether any trial may run under AutoLR; ``otherwise`` is what holds where the space does not say."""
    return space.constants.get("auto_lr", otherwise) != "off" or any(
        item.name == "auto_lr" for item in space.parameters
    )


def _default_lr(spec: TrialSpec) -> float:
    """The model's, or the published multiplier of an optimizer whose step has a length of its own."""
    return LR_FREE_LR if spec.optimizer in LR_FREE else find_model(spec.model).lr


def _choice_problems(given: Mapping[str, Any]) -> list[str]:
    """What is wrong with the sampler, and with what may be on the front."""
    problems = []
    if given["sampler"] not in SAMPLERS:
        problems.append(f"unknown sampler '{given['sampler']}': {expected_one_of(given['sampler'], SAMPLERS)}")
    if (scored := given.get("front_metrics")) is not None and scored < 0:
        problems.append(f"--front-metrics must be at least 0, got {scored}")
    if (candidates := given.get("candidates", LAST)) not in CANDIDATES:
        problems.append(f"unknown candidates '{candidates}': {expected_one_of(candidates, CANDIDATES)}")
    return problems


def _objectives(
    given: Mapping[str, Any], base: TrialSpec, problems: list[str]
) -> tuple[tuple[Objective, ...], TrialSpec]:
    """What is searched for, () where it cannot be read, and the spec that measures it."""
    try:
        objectives = parse_objectives(given["objectives"] or DEFAULT_OBJECTIVES)
    except ObjectiveError as error:
        problems.append(str(error))
        return (), base
    if wrong := unmeasured(objectives, base.dataset):
        problems += wrong
        return objectives, base
    return objectives, replace(base, metrics=with_objectives(base.metrics, objectives))


def _space(
    given: Mapping[str, Any],
    methods: Sequence[str],
    base: TrialSpec,
    options: Mapping[str, Sequence[float]],
    rates: Sequence[float],
    problems: list[str],
) -> Space | None:
    """The space of the file or of the name; None where it cannot be read, or another problem stands before it."""
    if is_space_file(given["space"]):
        space, wrong = file_space(Path(given["space"]), given, base, rates)
        problems += wrong
        return space
    if problems:
        return None
    try:
        return named_space(given, methods, base, options, rates)
    except SpaceError as error:
        problems += error.problems
        return None


def _number_problems(given: Mapping[str, Any]) -> list[str]:
    trials, seeds, most, cpus, gpus, seconds = (
        given[name] for name in ("trials", "seeds", "max_concurrent", "cpus_per_trial", "gpus_per_trial", "time_budget")
    )
    counts = {"trials": trials, "seeds": seeds, "max-concurrent": most}
    found = [f"{name} must be at least 1, got {n}" for name, n in counts.items() if n is not None and n < 1]
    fits = "no trial that takes {:g} {}s fits on this machine with {} {}s: lower --{}s-per-trial"
    if cpus is not None and not 0 < cpus < math.inf:
        found.append(f"cpus-per-trial must be greater than 0, got {cpus:g}")
    elif not given["address"] and (cpus or 1) > (present := os.cpu_count() or 1):
        found.append(fits.format(cpus, "CPU", present, "CPU", "cpu"))
    if gpus in (None, AUTO):
        pass
    elif 1 < gpus < math.inf:
        found.append(
            f"gpus-per-trial must be a number from 0 to 1, or auto, got {gpus:g}: a trial uses one GPU, as both "
            "gradients meet in one process; --lora-rank, --micro-batch and --gradient-checkpointing need less memory"
        )
    elif not 0 <= gpus <= 1:
        found.append(f"gpus-per-trial must be a number from 0 to 1, or auto, got {gpus:g}")
    elif gpus and not given["address"] and gpus > (present := gpus_here()):
        found.append(fits.format(gpus, "GPU", present, "GPU", "gpu"))
    if seconds is not None and not seconds > 0:
        found.append(f"time-budget must be greater than 0 seconds, got {seconds:g}")
    if is_address(storage := given["storage"]):
        found += filter(None, [address_problem_of_storage(storage)])
    elif storage and Path(storage).exists() and not Path(storage).is_dir():
        found.append(f"--storage {storage}: this is a file, expected a folder")
    return found


def _storage(given: str | None) -> str | None:
    return str(Path(given).resolve()) if given and not is_address(given) else given or None


def _gpus(given: Mapping[str, Any]) -> float | str:
    """What was asked for; else 1 on a machine that has a GPU, so that a default sweep uses it."""
    if (asked := given["gpus_per_trial"]) is not None:
        return asked if asked == AUTO else float(asked)
    if given["address"]:
        return 0.0
    return 1.0 if gpus_here() else 0.0
