"""Resolve option values to settings.

The only files that this module reads are the files of ``--space`` and ``--enqueue``. :mod:`sweeper.checks` checks
models, data and services.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from search_spaces.common.messages import counted, expected_one_of
from sweeper.settings.fields import RUN, STUDY, SWEEPS
from sweeper.settings.resources import AUTO, local_gpu_count
from sweeper.settings.search import read_search
from sweeper.settings.sources import Given, Options, Raw
from sweeper.settings.spaces import is_space_file, read_space, spec_problems, tries_auto_lr
from sweeper.settings.study import check_study, study_space, study_values
from sweeper.settings.sweep_settings import LAST, SweepSettings
from sweeper.settings.tracking_uri import absolute_uri, default_uri
from trainables.auto_lr.rules import enough_probe_batches
from trainables.data import DATASETS
from trainables.methods import parse_method
from trainables.modality import dataset_modality
from trainables.models.registry import MODELS, find_model, is_hub_id, local_model
from trainables.optimizers import LR_FREE, LR_FREE_LR
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import trial_problems
from trainables.storage import is_address


@dataclass(frozen=True, slots=True)
class Resolved:
    """The options of a command, and the spec and the settings that follow from them.

    Attributes:
        base: the spec of a single run, or the values that all trials of a sweep share.
        settings: the settings of a sweep; None if there are problems, or if the command does not run a sweep.
    """

    options: Options
    base: TrialSpec
    settings: SweepSettings | None = None


def resolve(command: str, raw: Raw, problems: Sequence[str] = ()) -> Resolved:
    """Resolve the option values of a command. The result lists ``problems`` and the problems found here."""
    options = Options(command, raw, problems)
    if command in SWEEPS:
        return _sweep(options)
    if command == RUN:
        return Resolved(options, _run(options))
    base = _base(options)
    _check_spec(options, base, ())
    return Resolved(options, base)


def _run(options: Options) -> TrialSpec:
    can_write_landscape = options["auto_lr"] == "on" and options["out"] is not None
    if options["landscape"] is not None and not can_write_landscape:
        text = "--landscape evaluates AutoLR's steps and writes a file: give --auto-lr on and --out DIR"
        options.add(text, "landscape")
    method_options = options.method_options
    counts = {f"option {name}": len(values) for name, values in method_options.items()}
    counts |= {"--method": len(options["method"]), "--lr": len(options["lr"])}
    for title, count in counts.items():
        if count > 1:
            options.add(f"{title} is given {count} times, but a single run takes one value; 'pareto' accepts several")
    spec = replace(_base(options), auto_lr=options["auto_lr"])
    methods = tuple(dict.fromkeys(options["method"])) or (FIELDS["method"].default,)
    _check_spec(options, spec, methods)
    if options.problems:
        return spec
    if spec.auto_lr == "off":
        options.without_auto_lr("give --auto-lr on")
    option_values = parse_method(methods[0]).resolve({name: values[0] for name, values in method_options.items()})
    return replace(spec, method=methods[0], options=tuple(sorted(option_values.items())))


def _sweep(options: Options) -> Resolved:
    is_study = options.command == STUDY
    methods = tuple(dict.fromkeys(options["method"])) or ("gdiff", "ngdiff")
    gpus = options["gpus_per_trial"]
    if gpus is None:
        gpus = 1.0 if local_gpu_count() and not options["address"] else 0.0
    options.values |= {"method": methods, "gpus_per_trial": gpus}
    options.values["tracking_uri"] = options["tracking_uri"] or default_uri()
    if is_study:
        options.values |= study_values(options, methods)
    base = _base(options)
    auto_lr = options["auto_lr"]
    if auto_lr in ("on", "both"):
        options.extend(trial_problems(replace(base, auto_lr="on", method="gd", options=())))
    is_file = is_space_file(options["space"])
    _check_spec(options, base, () if is_file else methods)
    _check_resources(options)
    if is_study:
        check_study(options, base)
    space = study_space(options, base) if is_study else read_space(options, base)
    if space and not tries_auto_lr(space, auto_lr):
        remedy = "put 'auto_lr: on' into the space file" if is_file else "give --auto-lr on, or --auto-lr both"
        options.without_auto_lr(remedy)
    search, base = read_search(options, space, base)
    if options.problems or space is None:
        return Resolved(options, base)
    storage = options["storage"] or None
    if storage and not is_address(storage):
        storage = _absolute(storage)
    derived_values = {
        "name": "",  # set below, because it contains the methods of the space
        "kind": options.command,
        "base": replace(base, auto_lr="on" if auto_lr == "on" else "off"),  # used if the space does not vary auto_lr
        "space": space,
        "trials": search.trials,
        "sampler": search.sampler,
        "enqueue": search.enqueue,
        "scheduler": search.scheduler,
        "grace": search.grace,
        "constraints": options["constraint"],
        "candidates": options["candidates"] or LAST,
        "time_budget_seconds": options["time_budget"],
        "warm_start": tuple(_absolute(folder) for folder in options["warm_start"] or ()),
        "reuse": tuple(_absolute(folder) for folder in options["reuse"]),
        "ship": not options["no_ship"],
        "storage": storage,
        "tracking_uri": absolute_uri(options["tracking_uri"]),
        "given": _values_to_store(options),
    }
    # The other settings have the values of the options with the same names.
    option_values = {item.name: options[item.name] for item in fields(SweepSettings) if item.name in options.fields}
    settings = SweepSettings(**(option_values | derived_values))
    name = "-".join([options.command, *settings.methods[:3], base.model, base.dataset])
    return Resolved(options, base, replace(settings, name=name.replace("+", "_").replace("/", "_")))


def _base(options: Options) -> TrialSpec:
    """Return a trial spec with the values of the options and the defaults of the model, but without a method."""
    model = options.explicit("model")
    dataset = options.explicit("dataset")
    path = options.explicit("model_path") or options.explicit("target_path")
    if model is not None and (model in MODELS or is_hub_id(model)):
        info = find_model(model)
    elif model is not None:
        expected = f"{expected_one_of(model, MODELS)}, or a hub id ORGANISATION/NAME; or use --model-path DIR"
        options.add(f"unknown model '{model}': {expected}", "model")
        info = MODELS["tiny-phi"]
    elif path:
        info = local_model(Path(path).name)
    else:
        info = MODELS[dataset_modality(dataset).offline_model]
    if options.explicit("model_path") and options.explicit("target_path"):
        text = "--model-path and --target-path are mutually exclusive: a target needs no base model"
        options.add(text, "target_path")
    values: dict[str, Any] = {}
    for name, field in options.fields.items():
        is_copied = name in FIELDS and not field.repeats and name not in ("model", "dataset", "auto_lr")
        if is_copied and options.raw.get(name):
            values[name] = _absolute(options[name]) if field.role == "placement" else options[name]
    defaults = {"batch_size": info.batch_size, "eval_batch_size": info.eval_batch_size, "lora_rank": info.lora_rank}
    spec = TrialSpec(model=info.name, dataset=dataset or info.dataset)
    if spec.dataset in DATASETS and (length := DATASETS[spec.dataset].max_length):
        defaults["max_length"] = length
    spec = replace(spec, **(defaults | values))
    if "auto_lr_probe_batches" not in values and FIELDS["batch_size"].fits(spec.batch_size):
        spec = replace(spec, auto_lr_probe_batches=enough_probe_batches(spec.batch_size))
    if rates := options["lr"]:
        return replace(spec, lr=rates[0])
    return replace(spec, lr=LR_FREE_LR if spec.optimizer in LR_FREE else info.lr)


def _check_spec(options: Options, spec: TrialSpec, methods: Sequence[str]) -> None:
    for problem, name in spec_problems(spec, methods, options.method_options).items():
        is_pair = name in options.method_options and name not in options.raw  # given with --option
        options.add(problem, "option" if is_pair else name)


def _check_resources(options: Options) -> None:
    gpus = options["gpus_per_trial"]
    _check_fit(options, "cpus_per_trial", unit="CPU", available=os.cpu_count() or 1)
    if gpus == AUTO:
        return
    if gpus > 1:
        options.add(
            f"--gpus-per-trial must be a number from 0 to 1, or auto, got {gpus:g}: a trial uses at most one GPU, "
            "because one process combines both gradients; if the GPU is too small for a trial, use --lora-rank, "
            "--micro-batch or --gradient-checkpointing",
            "gpus_per_trial",
        )
    else:
        _check_fit(options, "gpus_per_trial", unit="GPU", available=local_gpu_count())


def _check_fit(options: Options, name: str, *, unit: str, available: int) -> None:
    required = options[name]
    if not options["address"] and required > available:
        text = f"a trial takes {counted(required, unit)}, but this machine has {counted(available, unit)}"
        options.add(f"{text}: lower {options.fields[name].flag}", name)


def _values_to_store(options: Options) -> Raw:
    return {
        name: [_with_absolute_path(given) for given in values] if options.fields[name].is_path else values
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
