"""Resolve option values to settings.

The only files that this module reads are the files of ``--space`` and ``--enqueue``. :mod:`sweeper.checks` checks
models, data and services.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from search_spaces.builtin import PAPER, PAPER_RULES
from search_spaces.common.messages import counted, expected_one_of
from search_spaces.space import Space, SpaceError
from sweeper.settings.fields import fields_of
from sweeper.settings.names import NO_ATTACKS, NO_FRESH_RUNS
from sweeper.settings.options import (
    FACTORS,
    EvaluateOptions,
    FactorOptions,
    ModelOptions,
    ParetoOptions,
    RunOptions,
    StudyOptions,
    SweepOptions,
)
from sweeper.settings.reading import Problem, about, located, method_options, pair_problems, read, trial_values
from sweeper.settings.resources import local_gpu_count
from sweeper.settings.search import read_attacks, read_search
from sweeper.settings.sources import Given, Options, Raw
from sweeper.settings.spaces import (
    ANY_METHOD,
    built_in_space,
    condition_specs,
    is_space_file,
    no_effect_problems,
    read_space_file,
    spec_problems,
)
from sweeper.settings.study import forgetting_problems, seed_problems, study_problems, study_space, with_study_defaults
from sweeper.settings.sweep_settings import LAST, SweepSettings, attacked_spec
from sweeper.settings.tracking_uri import absolute_uri, default_uri, tracking_problem
from trainables.data import DATASETS
from trainables.methods import parse_method
from trainables.metrics.registry import METRICS, SETS
from trainables.modality import dataset_modality
from trainables.models.registry import MODELS, find_model, is_hub_id, local_model
from trainables.optimizers import LR_FREE, LR_FREE_LR
from trainables.question_sets import METRIC_SET, question_sets
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems
from trainables.storage import is_address

M = TypeVar("M", bound=ModelOptions)


@dataclass(frozen=True, slots=True)
class Resolved(Generic[M]):
    """The options of a command, and the spec and the settings that follow from them.

    Attributes:
        base: the spec of a single run, or the values that all trials of a sweep share.
        problems: the problems with the options. If there are any, the other attributes may be incomplete.
        settings: the settings of a sweep; None if there are problems, or if the command does not run a sweep.
    """

    options: M
    base: TrialSpec
    problems: Sequence[Problem] = ()
    settings: SweepSettings | None = None

    @property
    def messages(self) -> list[str]:
        """The texts of the problems, with the files and lines of the options."""
        return located(self.problems, self.options.raw)


def resolve(options_type: type[M], raw: Raw, problems: Sequence[str] = ()) -> Resolved[M]:
    """Resolve the option values of a command. The result lists ``problems`` and the problems found here."""
    options, found = read(options_type, raw, problems)
    if isinstance(options, SweepOptions):
        return _sweep(options, found)
    if isinstance(options, RunOptions):
        return _run(options, found)
    base, base_problems = _base(options)
    if isinstance(options, EvaluateOptions):
        attacks, attack_problems = read_attacks(options.attacks)
        base = attacked_spec(base, options.attacks if attacks else NO_ATTACKS)
        base_problems = [*base_problems, *attack_problems]
    return Resolved(options, base, [*found, *base_problems, *_spec_problems(options, base, (), {})])


def _run(options: RunOptions, problems: list[Problem]) -> Resolved[Any]:
    can_write_landscape = options.auto_lr != "off" and options.out is not None
    if options.landscape is not None and not can_write_landscape:
        text = "--landscape evaluates AutoLR's steps and writes a file: give --auto-lr gen and --out DIR"
        problems.append(Problem(text, "landscape"))
    if options.tracking_uri is not None:
        if options.out is None:
            text = "--tracking-uri records the model and the files of a run: give --out DIR, too"
            problems.append(Problem(text, "tracking_uri"))
        elif problem := tracking_problem(options.tracking_uri):
            problems.append(Problem(problem, "tracking_uri"))
    problems += pair_problems(options.option)
    values_by_option = method_options(options.option, options.c)
    counts = {f"option {name}": len(values) for name, values in values_by_option.items()}
    counts |= {"--method": len(options.method), "--lr": len(options.lr)}
    for title, count in counts.items():
        if count > 1:
            text = f"{title} is given {count} times, but a single run takes one value; 'pareto' accepts several"
            problems.append(Problem(text))
    base, base_problems = _base(options, options.lr)
    problems += base_problems
    spec = replace(base, auto_lr=options.auto_lr)
    methods = tuple(dict.fromkeys(options.method)) or (FIELDS["method"].default,)
    problems += _spec_problems(options, spec, methods, values_by_option)
    if problems:
        return Resolved(options, spec, problems)
    problems += no_effect_problems(options, [spec])
    option_values = parse_method(methods[0]).resolve({name: values[0] for name, values in values_by_option.items()})
    spec = replace(spec, method=methods[0], options=tuple(sorted(option_values.items())))
    return Resolved(options, spec, problems)


def _default_methods(options: SweepOptions) -> tuple[str, ...]:
    """Return the paper's two methods and, for the default model and data, a method whose answers stay fluent.

    The evidence is docs/data/demo_methods.csv, which has only the default model.
    """
    paper_methods = ("gdiff", "ngdiff")
    is_default_problem = options.model in (None, "tiny-phi") and options.dataset in (None, "authors")
    has_other_model = bool(options.model_path or options.target_path)
    # A grid search needs a list of values for each option of a method.
    has_search = isinstance(options, ParetoOptions) and options.space is None and options.sampler != "grid"
    if not has_search or has_other_model or not is_default_problem:
        return paper_methods
    return (*paper_methods, "undial+ngdiff")


def _sweep(options: SweepOptions, problems: list[Problem]) -> Resolved[Any]:
    gpus = options.gpus_per_trial
    if gpus is None:
        gpus = 1.0 if local_gpu_count() and not options.address else 0.0
    methods = tuple(dict.fromkeys(options.method)) or _default_methods(options)
    uri = options.tracking_uri or default_uri()
    options = replace(options, method=methods, gpus_per_trial=gpus, tracking_uri=uri)
    if isinstance(options, StudyOptions):
        options = with_study_defaults(options)
    base, base_problems = _base(options, options.lr)
    problems += base_problems
    default_rules = PAPER_RULES if options.space == PAPER and base.optimizer not in LR_FREE else ("off",)
    options = replace(options, auto_lr=tuple(dict.fromkeys(options.auto_lr)) or default_rules)
    if len(options.auto_lr) == 1:
        base = replace(base, auto_lr=options.auto_lr[0])
    for rule in options.auto_lr[1:]:
        problems += map(Problem, trial_problems(replace(base, auto_lr=rule, method=ANY_METHOD, options=())))
    is_file = is_space_file(options.space)
    problems += pair_problems(options.option)
    values_by_option = method_options(options.option, options.c)
    checked_methods = () if is_file else methods
    spec_problems_found = [*_spec_problems(options, base, checked_methods, values_by_option)]
    for update in options.update:
        found = _spec_problems(options, replace(base, update=update), checked_methods, values_by_option)
        spec_problems_found += [problem for problem in found if problem not in spec_problems_found]
    problems += spec_problems_found
    problems += _resource_problems(options, gpus)
    if isinstance(options, StudyOptions):
        problems += study_problems(options, base, is_valid=not problems)
        too_few_seeds = seed_problems(options, base)
    space: Space | None = None
    try:
        if isinstance(options, StudyOptions):
            space = None if problems else study_space(options, base)
            problems += too_few_seeds
        elif options.space is not None and is_file:
            space, file_problems = read_space_file(options, Path(options.space), base)
            problems += about("space", *file_problems)
        elif not problems:
            space = built_in_space(options, base)
    except SpaceError as error:
        problems += map(Problem, error.problems)
    if space:
        problems += no_effect_problems(options, condition_specs(space, base), is_file=is_file)
    search, base, search_problems = read_search(options, space, base, is_valid=not problems)
    problems += search_problems
    if isinstance(options, StudyOptions):
        problems += forgetting_problems(options, base)
    if problems or space is None:
        return Resolved(options, base, problems)
    storage = options.storage or None
    if storage and not is_address(storage):
        storage = _absolute(storage)
    after_search = () if search.candidates == LAST else tuple(filter(_is_after_search, base.metrics))
    base = replace(base, metrics=tuple(name for name in base.metrics if name not in after_search))
    settings = SweepSettings.from_options(options, base=base, space=space, trials=search.trials)
    settings = replace(
        settings,
        after_search=after_search,
        sampler=search.sampler,
        candidates=search.candidates,
        enqueue=search.enqueue,
        scheduler=search.scheduler,
        grace=search.grace,
        criterion=PAPER if options.space == PAPER and "criterion" not in options.raw else settings.criterion,
        confirm=NO_FRESH_RUNS if options.space == PAPER and "confirm" not in options.raw else settings.confirm,
        warm_start=tuple(map(_absolute, settings.warm_start)),
        reuse=tuple(map(_absolute, settings.reuse)),
        storage=storage,
        tracking_uri=absolute_uri(uri),
        given=_values_to_store(options),
    )
    return Resolved(options, base, problems, settings)


def _is_after_search(metric_set: str) -> bool:
    """Return whether all metrics of a set are measured after the search only."""
    return metric_set in SETS and all(METRICS[name].after_search for name in SETS[metric_set])


def _base(options: ModelOptions, rates: Sequence[float] = ()) -> tuple[TrialSpec, list[Problem]]:
    """Return a trial spec with the values of the options and the defaults of the model, but without a method."""
    problems: list[Problem] = []
    model = options.model
    dataset = options.dataset
    path = options.model_path or options.target_path
    if model is not None and (model in MODELS or is_hub_id(model)):
        info = find_model(model)
    elif model is not None:
        expected = f"{expected_one_of(model, MODELS)}, or a hub id ORGANISATION/NAME; or use --model-path DIR"
        problems += about("model", f"unknown model '{model}': {expected}")
        info = MODELS["tiny-phi"]
    elif path:
        info = local_model(Path(path).name)
    else:
        info = MODELS[dataset_modality(dataset).offline_model]
    if options.model_path and options.target_path:
        text = "--model-path and --target-path are mutually exclusive: a target needs no base model"
        problems += about("target_path", text)
    values: dict[str, Any] = {}
    for name, value in trial_values(options).items():
        if name not in ("model", "dataset", "auto_lr"):
            values[name] = _absolute(value) if FIELDS[name].role == "placement" else value
    if isinstance(options, FactorOptions):
        given = {name: getattr(options, name) for name in FACTORS}
        values |= {name: items[0] for name, items in given.items() if len(items) == 1}  # the space has several values
    defaults = {"batch_size": info.batch_size, "eval_batch_size": info.eval_batch_size, "lora_rank": info.lora_rank}
    spec = TrialSpec(model=info.name, dataset=dataset or info.dataset)
    if spec.dataset in DATASETS and (length := DATASETS[spec.dataset].max_length):
        defaults["max_length"] = length
    spec = replace(spec, **(defaults | values))
    if spec.metrics and question_sets():
        spec = replace(spec, metrics=tuple(dict.fromkeys([*spec.metrics, METRIC_SET])))
    default_rate = LR_FREE_LR if spec.optimizer in LR_FREE else info.lr
    return replace(spec, lr=rates[0] if rates else default_rate), problems


def _spec_problems(
    options: Options, spec: TrialSpec, methods: Sequence[str], values_by_option: Mapping[str, Sequence[float]]
) -> Iterator[Problem]:
    for problem, name in spec_problems(spec, methods, values_by_option).items():
        is_pair = name in values_by_option and name not in options.raw  # given with --option
        yield Problem(problem, "option" if is_pair else name)


def _resource_problems(options: SweepOptions, gpus: float | str) -> list[Problem]:
    problems = _fit_problems(
        options, "cpus_per_trial", options.cpus_per_trial, unit="CPU", available=os.cpu_count() or 1
    )
    if options.no_ship and not options.address:
        problems.append(
            Problem("--no-ship applies only to a cluster: give its --address, or leave out --no-ship", "no_ship")
        )
    if isinstance(gpus, str):
        return problems
    if gpus > 1:
        return [
            *problems,
            Problem(
                f"--gpus-per-trial must be a number from 0 to 1, or auto, got {gpus:g}: a trial uses at most one GPU, "
                "because one process combines both gradients; if the GPU is too small for a trial, use --lora-rank, "
                "--micro-batch or --gradient-checkpointing",
                "gpus_per_trial",
            ),
        ]
    return problems + _fit_problems(options, "gpus_per_trial", gpus, unit="GPU", available=local_gpu_count())


def _fit_problems(options: SweepOptions, name: str, required: float, *, unit: str, available: int) -> list[Problem]:
    if options.address or required <= available:
        return []
    text = f"a trial takes {counted(required, unit)}, but this machine has {counted(available, unit)}"
    return about(name, f"{text}: lower --{name.replace('_', '-')}")


def _values_to_store(options: Options) -> Raw:
    described = fields_of(type(options))
    return {
        name: [_with_absolute_path(given) for given in values] if described[name].is_path else values
        for name, values in options.raw.items()
    }


def _with_absolute_path(given: Given) -> Given:
    """Make the path absolute if the file or folder exists. Return any other value unchanged."""
    path = given.value
    if isinstance(path, str) and path and Path(path).exists():
        return replace(given, value=_absolute(path))
    return given


def _absolute(path: str) -> str:
    return str(Path(path).resolve())
