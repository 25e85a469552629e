"""Build the settings of a sweep, and the base trial that its trials vary, from the option values."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from search_spaces.messages import expected_one_of
from search_spaces.parameters import Choice
from search_spaces.space import Space, SpaceError
from sweeper.settings.fields import NO_SCHEDULER, PARETO
from sweeper.settings.objectives import constraint_problems
from sweeper.settings.problems import Problem
from sweeper.settings.resources import AUTO
from sweeper.settings.search import check_search, epochs_per_trial, read_enqueue, read_objectives, read_scheduling
from sweeper.settings.sources import Options
from sweeper.settings.spaces import file_space, is_space_file, named_space, spec_problems, tries_auto_lr
from sweeper.settings.sweep_settings import LAST, SweepSettings
from sweeper.settings.tracking_uri import absolute_uri
from trainables.auto_lr.rules import enough_probe_batches
from trainables.data import DATASETS
from trainables.metrics.registry import LOSS_METRICS
from trainables.modality import dataset_modality
from trainables.models.registry import MODELS, find_model, is_hub_id, local_model
from trainables.optimizers import LR_FREE, LR_FREE_LR
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems
from trainables.storage import is_address

DEFAULT_METHODS = ("gdiff", "ngdiff")
DEFAULT_TRIALS = {True: 16, False: 32}
"""The default number of trials, keyed by whether every trial runs to its end.

With a scheduler, most trials stop early.
"""
_GRID = 1000
"""The points of a space are counted only if the product of the lengths of its lists is at most this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The available choices after plug-ins are loaded, two functions of the search, and this machine's resources.

    ``rungs`` returns the epochs after which a scheduler compares trials; ``parse_until`` raises ValueError for an
    invalid rule. ``tracking_uri`` is the default address of MLflow.
    """

    choices: Mapping[str, Collection[str]]
    learning: Collection[str]
    rungs: Callable[..., Sequence[int]]
    parse_until: Callable[[str], object]
    tracking_uri: str
    cpus: int
    gpus: int


@dataclass(slots=True)
class Resolved:
    """The resolved options. Without problems, ``settings`` of a sweep or ``spec`` of a run is set.

    ``base`` is the trial that all other trials vary; ``options`` maps method options to their given values.
    """

    base: TrialSpec
    values: Mapping[str, Any]
    problems: list[Problem]
    options: Mapping[str, Sequence[float]] = field(default_factory=dict)
    settings: SweepSettings | None = None
    spec: TrialSpec | None = None


def base_spec(options: Options) -> TrialSpec:
    """Return the trial spec from the options, without the method and the learning rate."""
    model, dataset = options.asked("model"), options.asked("dataset")
    path = options.asked("model_path") or options.asked("target_path")
    if model is not None and (model in MODELS or is_hub_id(model)):
        info = find_model(model)
    elif model is not None:
        options.reject("model-unknown", "model", model=model, expected=expected_one_of(model, MODELS))
        info = MODELS["tiny-phi"]
    else:
        info = local_model(Path(path).name) if path else MODELS[dataset_modality(dataset).offline_model]
    if options.asked("model_path") and options.asked("target_path"):
        options.reject("two-models", "target_path")
    values: dict[str, Any] = {
        name: str(Path(value).resolve()) if item.role == "placement" else value
        for name, item in options.fields.items()
        if name in FIELDS and not item.repeats and name not in ("model", "dataset", "auto_lr")
        if (value := options.asked(name)) is not None
    }
    usual = {"batch_size": info.batch_size, "eval_batch_size": info.eval_batch_size, "lora_rank": info.lora_rank}
    if options.raw.get("lora_rank"):
        usual["lora_rank"] = None
    spec = TrialSpec(model=info.name, dataset=dataset or info.dataset)
    if spec.dataset in DATASETS and (length := DATASETS[spec.dataset].max_length):
        usual["max_length"] = length
    spec = replace(spec, **(usual | values))
    if "auto_lr_probe_batches" not in values and FIELDS["batch_size"].fits(spec.batch_size):
        spec = replace(spec, auto_lr_probe_batches=enough_probe_batches(spec.batch_size))
    return spec


def resolve_sweep(options: Options, catalog: Catalog) -> Resolved:
    """Resolve the options of a sweep."""
    methods, values, auto_lr = methods_of(options), options.method_options(), options["auto_lr"]
    base = replace(base_spec(options), seed=options["seed"] or 0)
    if auto_lr in ("on", "both"):
        options.extend(trial_problems(replace(base, auto_lr="on", method="gd", options=())))
    is_file = is_space_file(options["space"])
    options.extend(spec_problems(base, () if is_file else methods, values))
    options.values["tracking_uri"] = options["tracking_uri"] or catalog.tracking_uri
    gpus = _gpus(options, catalog)
    space = _space(options, methods, base, values)
    if space and not tries_auto_lr(space, auto_lr):
        options.without_auto_lr("put auto_lr: on into the file" if is_file else "give --auto-lr on or both")
    if _is_small(options, space):  # a sampler would only propose the same points again
        options.values["sampler"] = "grid"
    objectives, base = read_objectives(options, base)
    costly = base.metrics_every != 1 and not {item.column for item in objectives} <= set(LOSS_METRICS)
    scheduling = read_scheduling(options, epochs=base.epochs, eval_every=base.eval_every, blind=costly)
    trials = options["trials"]
    if not options.problems and space is not None and options["sampler"] == "grid":
        trials = _grid_trials(options, space)
    points = read_enqueue(options, space, trials)
    options.extend(constraint_problems(options["constraint"], base), "constraint")
    check_search(options, catalog.parse_until, catalog.learning)
    resolved = Resolved(base, options.values, options.problems, values)
    if options.problems or space is None:
        return resolved
    if not trials and options["epoch_budget"]:
        trials = math.ceil(options["epoch_budget"] / epochs_per_trial(scheduling, base.epochs, catalog.rungs))
    rates, storage = options["lr"], options["storage"]
    computed: dict[str, Any] = {
        "name": "-".join([PARETO, *methods[:3], base.model, base.dataset]).replace("+", "_").replace("/", "_"),
        # Used by fields that the space does not vary.
        "base": replace(base, lr=rates[0] if rates else default_lr(base), auto_lr="on" if auto_lr == "on" else "off"),
        "space": space,
        "sampler": options["sampler"],
        "ship": not options["no_ship"],
        "trials": trials or DEFAULT_TRIALS[scheduling["scheduler"] == NO_SCHEDULER],
        "gpus_per_trial": gpus,
        "storage": str(Path(storage).resolve()) if storage and not is_address(storage) else storage or None,
        "tracking_uri": absolute_uri(options["tracking_uri"]),
        "time_budget_seconds": options["time_budget"],
        "candidates": options["candidates"] or LAST,
        "constraints": options["constraint"],
        "enqueue": tuple(points),
        **{name: _absolute(options[name] or ()) for name in ("warm_start", "reuse")},
    }
    same = {item.name: options[item.name] for item in fields(SweepSettings) if item.name in options.fields}
    resolved.settings = SweepSettings(**(same | scheduling | computed))
    return resolved


def _absolute(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(Path(folder).resolve()) for folder in folders)


def methods_of(options: Options) -> tuple[str, ...]:
    """Return the methods of a sweep, or the default methods if none are given."""
    return tuple(dict.fromkeys(options["method"])) or DEFAULT_METHODS


def default_lr(spec: TrialSpec) -> float:
    """Return the model's default learning rate, or for learning-rate-free optimizers the published multiplier."""
    return LR_FREE_LR if spec.optimizer in LR_FREE else find_model(spec.model).lr


def _gpus(options: Options, catalog: Catalog) -> float | str:
    """Return the GPUs per trial (default 1 if this machine has a GPU). Check that a trial fits on this machine."""
    cpus, gpus, is_here = options["cpus_per_trial"], options["gpus_per_trial"], not options["address"]

    def check_fit(name: str, unit: str, *, wanted: float, available: int) -> None:
        if is_here and available < wanted < math.inf:
            flag = options.fields[name].flag
            options.reject("trial-too-large", name, wanted=wanted, unit=unit, available=available, flag=flag)

    check_fit("cpus_per_trial", "CPU", wanted=cpus, available=catalog.cpus)
    if gpus is None:
        return 1.0 if is_here and catalog.gpus else 0.0
    if gpus == AUTO:
        return AUTO
    if not math.isfinite(gpus):  # already reported as a problem
        return 0.0
    if not 0 <= gpus <= 1:
        options.reject("gpus-several" if gpus > 1 else "gpus-out-of-range", "gpus_per_trial", gpus=gpus)
    else:
        check_fit("gpus_per_trial", "GPU", wanted=gpus, available=catalog.gpus)
    return float(gpus)


def _space(
    options: Options, methods: Sequence[str], base: TrialSpec, values: Mapping[str, Sequence[float]]
) -> Space | None:
    """Return the space from its file or by its name, or None if it cannot be built because of a problem."""
    chosen, rates, auto_lr = options["space"], options["lr"], options["auto_lr"]
    if is_space_file(chosen):
        given = [name for name in ("method", "c", "option") if options[name]]
        given += ["lr"] * (len(rates) > 1) + ["auto_lr"] * (auto_lr == "both")
        fixed = ["lr"] * (len(rates) == 1) + ["auto_lr"] * (auto_lr == "on")
        started = replace(base, auto_lr="on") if auto_lr == "on" else base
        space, problems = file_space(Path(chosen), started, given=given, fixed=fixed)
        options.extend(problems)
        return space
    if options.problems:
        return None
    fixed = [name for name in FIELDS if name not in ("method", "lr", "auto_lr", "seed") and options.asked(name)]
    try:
        return named_space(chosen or "default", methods, base, values, rates=rates, auto_lr=auto_lr, fixed=fixed)
    except SpaceError as error:
        options.extend(error.problems)
        return None


def _is_small(options: Options, space: Space | None) -> bool:
    """Return whether the space has few points and no option sets the sampler or the length of the search."""
    asked = ("sampler", "trials", "enqueue", "warm_start", "epoch_budget")
    if space is None or any(options.raw.get(name) for name in asked):
        return False
    sizes = [len(item.values) if isinstance(item, Choice) else math.inf for item in space.parameters]
    return math.prod(sizes) <= _GRID and len(space.grid()) <= min(DEFAULT_TRIALS.values())


def _grid_trials(options: Options, space: Space) -> int | None:
    """Return the number of trials of a grid search: ``--trials``, or the grid size times the number of seeds."""
    trials: int | None = options["trials"]
    try:
        size = len(space.grid()) * int(options["seeds"])
    except ValueError as error:
        options.reject("grid-infinite", "sampler", reason=error)
        return None
    if trials is not None and trials > size:
        options.reject("grid-too-small", "trials", trials=trials, size=size)
    return trials if trials is not None else size
