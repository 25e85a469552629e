"""From options to a checked spec: everything that can be wrong is found here, before any work starts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from search_spaces.messages import did_you_mean, expected_one_of, resume_command
from sweeper.cli.errors import refuse
from sweeper.cli.options import asked, given_problems
from trainables.auto_lr.rules import enough_probe_batches
from trainables.data import DATASETS, DataError
from trainables.methods import OPTIONS, MethodError, parse_method
from trainables.modality import Modality, dataset_modality
from trainables.models.hub_cache import cached_snapshot
from trainables.models.registry import MODELS, find_model, is_hub_id, local_model
from trainables.models.tiny import LAYERS, TWINS
from trainables.objectives.rmu import layer_problem
from trainables.spec import FIELDS, TrialSpec
from trainables.spec_checks import method_problems, trial_problems
from trainables.target.target_spec import CHAT_FILE, target_spec_of
from trainables.template import CHAT, WITHOUT_CHAT

GOES_ON = "sweeper.goes_on"
"""Set in the context's meta by a command that goes on with an unfinished run in its --out."""

NO_OBJECT_STORAGE = (
    "object storage cannot be written to; expected a folder, on a cluster one that all nodes see (NFS); what workers "
    "write travels through a bucket by --storage"
)
_MODEL_FOLDERS = ("model_path", "target_path", "retain_path")


def base_spec(given: Mapping[str, Any], problems: list[str]) -> TrialSpec:
    """The spec the options describe, without method and learning rate; problems with model and data are added."""
    model = given.get("model")
    path = given.get("model_path") or given.get("target_path")
    if model is not None and (model in MODELS or is_hub_id(model)):
        info = find_model(model)
        if model not in MODELS and not path and Path(model).is_dir():
            problems.append(f"--model {model}: this is a folder; give it with --model-path {model}")
    elif model is not None:
        problems.append(
            f"unknown model '{model}': {expected_one_of(model, MODELS)}; a hub id ORGANISATION/NAME; "
            "or --model-path DIR"
        )
        info = MODELS["tiny-phi"]
    else:
        offline = dataset_modality(given.get("dataset")).offline_model
        info = local_model(Path(path).name) if path else MODELS[offline]
    if given.get("model_path") and given.get("target_path"):
        problems.append("--model-path and --target-path exclude each other: a target needs no base model")
    for name in _MODEL_FOLDERS:
        if given.get(name):
            problems += model_folder_problems(
                Path(given[name]),
                flag=FIELDS[name].flag,
                modality=dataset_modality(given.get("dataset") or info.dataset),
                processor=name != "model_path",
            )
    values = {
        name: str(Path(value).resolve()) if FIELDS[name].role == "placement" else value
        for name, value in asked(given).items()
        if name not in ("model", "dataset")
    }
    spec = TrialSpec(model=info.name, dataset=given.get("dataset") or info.dataset)
    if spec.dataset in DATASETS:
        spec = replace(spec, max_length=DATASETS[spec.dataset].max_length or spec.max_length)
    own: dict[str, Any] = {name: getattr(info, name) for name in ("batch_size", "eval_batch_size", "lora_rank")}
    # "none" and 0 switch off the adapter a model is trained through by default.
    if values.get("lora_rank") == 0:
        values["lora_rank"] = None
    spec = replace(spec, **(own | values))
    if "auto_lr_probe_batches" not in values and FIELDS["batch_size"].fits(spec.batch_size):
        spec = replace(spec, auto_lr_probe_batches=enough_probe_batches(spec.batch_size))
    return spec


def checked_spec(given: Mapping[str, Any], problems: list[str], **change: Any) -> TrialSpec:
    """The spec the options describe, of no method, for work on a model; with ``change`` in place of what they say.

    Raises:
        Problems: what is wrong with them, beside the ``problems`` there are already.
    """
    problems += given_problems() + output_problems(given["out"])
    spec = replace(base_spec(given, problems), **change)
    problems += spec_problems(spec, (), {})
    problems += source_problems(spec, ask_hub=not problems)
    refuse(problems)
    return spec


def spec_problems(spec: TrialSpec, methods: Sequence[str], options: Mapping[str, Sequence[float]]) -> list[str]:
    """Problems of the spec under each method and each value of its options, each told once.

    An option must apply to at least one of the methods.
    """
    found: list[str] = []
    known = []
    for name in methods:
        try:
            known.append(parse_method(name))
        except MethodError as error:
            found.append(str(error))
    for option, values in options.items():
        # With no method to ask, whoever has an option of this name knows which values make sense.
        having = [method.options for method in known] or [{item.name: item} for item in OPTIONS.values()]
        described = [own[option] for own in having if option in own]
        if known and not described:
            near = did_you_mean(option, {name for own in having for name in own})
            found.append(f"option {option} does not apply to {', '.join(methods)}{near and f'; {near}'}")
        found += [problem for item in described for value in values if (problem := item.problem(value))]
        if option == "layer" and not found and (depth := _depth(spec)) is not None:
            found += [problem for value in values if (problem := layer_problem(value, depth=depth))]
    # The method itself has been looked at above; gd has no options, always parses and takes any retain objective.
    found += trial_problems(replace(spec, method="gd", options=())) + _chat_problems(spec)
    return list(dict.fromkeys(found + [text for method in known for text in method_problems(spec, method)]))


def _depth(spec: TrialSpec) -> int | None:
    """How many decoder blocks the model has; None where neither a folder nor the hub's cache tells."""
    folder: str | Path | None = spec.target_path or spec.model_path
    if folder is None and spec.model in TWINS:
        return LAYERS
    if folder is None and spec.model in MODELS and (hub_id := MODELS[spec.model].hub_id) is not None:
        folder = cached_snapshot(hub_id)
    try:
        content = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8")) if folder else {}
        depth = content.get("num_hidden_layers", content.get("n_layer"))
    except (OSError, ValueError, AttributeError):
        return None
    return depth if isinstance(depth, int) else None


def _chat_problems(spec: TrialSpec) -> list[str]:
    """Why there is no chat template to ask with, as far as that can be seen before the tokenizer is loaded."""
    if spec.template != CHAT:
        return []
    folder = spec.target_path or spec.model_path
    if folder is None:
        made = spec.model in MODELS and MODELS[spec.model].hub_id is None and MODELS[spec.model].make is None
        whose = f"model {spec.model} is made here, and its tokenizer" if made else ""
    else:
        try:
            content = json.loads((Path(folder) / "tokenizer_config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            content = {}
        has = (Path(folder) / CHAT_FILE).is_file() or "chat_template" in content
        whose = "" if has else f"the tokenizer in {folder}"
    return [f"template chat: {whose} has no chat template; {WITHOUT_CHAT}"] if whose else []


def precision_problems(spec: TrialSpec, *, gpus: float, others: Sequence[str]) -> list[str]:
    """Whether bfloat16 is worth it where the run is on this machine's CPU; measured only if nothing else is wrong."""
    if spec.dtype != "bf16" or gpus > 0 or others:
        return []
    from trainables.precision import bf16_problem

    problem = bf16_problem()
    return [] if problem is None else [problem]


def source_problems(spec: TrialSpec, *, ask_hub: bool) -> list[str]:
    """Problems with the files and the hub the spec needs; the network is asked only if nothing else is wrong."""
    dataset = DATASETS.get(spec.dataset)
    if dataset is None:
        return []
    found = dataset.folder_problems(spec.data_dir)
    hub: list[tuple[str, str]] = []
    if dataset.hub_id is not None and spec.data_dir is None:
        hub.append(("dataset", dataset.hub_id))
    elif (
        not found
        and not dataset.choice_problems(spec.forget_split, spec.forget_class)
        and not dataset.seed_problems(spec.data_seed)
        and (spec.limit is None or spec.limit > 0)
    ):
        try:
            target_spec_of(spec).measured()
        except DataError as error:
            found += error.problems
    hub_id = find_model(spec.model).hub_id
    if spec.model_path is None and spec.target_path is None and hub_id is not None:
        hub.append(("model", hub_id))
    if hub and ask_hub and not found:
        from sweeper.checks.hub import hub_problems

        found += hub_problems(hub)
    return found


def output_problems(given: str | None) -> list[str]:
    """Why an output folder cannot be used: nothing is ever overwritten."""
    if given is None:
        return []
    folder = Path(given)
    if found := place_problems(given):
        return found
    if (folder / "sweep.json").exists():
        return [
            f"--out {folder}: it holds another sweep; go on with it by '{resume_command(folder)}', "
            "or name another folder"
        ]
    if folder.is_dir() and any(folder.iterdir()):
        return [] if _goes_on_in(folder) else [f"--out {folder}: the folder is not empty; name a new or an empty one"]
    return []


def _goes_on_in(folder: Path) -> bool:
    """Whether the command is one that goes on with an unfinished run, and the folder holds one."""
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(GOES_ON):
        return False
    from sweeper.store.unfinished_run import RunFile

    return RunFile.read(folder) is not None


def place_problems(given: str) -> list[str]:
    """Why there can be no folder ``--out``, or nothing can be written to it."""
    if not given:
        return ["--out must be the name of a folder, got nothing"]
    if "://" in given:
        return [f"--out {given}: {NO_OBJECT_STORAGE}"]
    folder = Path(given)
    parent = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not parent.is_dir():
        return [f"--out {folder}: {'this' if parent == folder else parent} is a file, expected a folder"]
    if not os.access(parent, os.W_OK):
        return [f"--out {folder}: {parent} is not writable"]
    return []


def model_folder_problems(folder: Path, *, flag: str, modality: Modality, processor: bool = True) -> list[str]:
    """Why a folder is no model of this modality in safetensors, with its processor if ``processor`` says so."""
    if not folder.is_dir():
        return [
            f"{flag} {folder}: no such folder; expected a model folder with config.json, safetensors and a tokenizer"
        ]
    return [f"{flag} {folder}: {problem}" for problem in modality.folder_problems(folder, processor=processor)]
