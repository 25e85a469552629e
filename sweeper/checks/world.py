"""Check resolved settings against the files and services that they name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.messages import resume_command
from sweeper.settings.problems import Problem, problem, refuse, stated
from sweeper.settings.sources import Raw
from trainables import plugins
from trainables.storage import address_problem as storage_address_problem
from trainables.storage import is_address, storage_problem

if TYPE_CHECKING:
    from sweeper.settings.resolve import Resolved
    from sweeper.settings.search import Choices
    from trainables.modality import Modality
    from trainables.spec import TrialSpec

DATA = "data"
"""The ``field`` of problems with data rows and hub repositories. Such problems are listed last."""


def resolve_and_check(
    command: str, raw: Raw, problems: Sequence[Problem] = (), *, continues: bool = False, **change: Any
) -> Resolved:
    """Load the plug-ins, resolve the option values to settings, and check the settings.

    Args:
        problems: the problems that the caller found. They are reported together with the new problems.
        continues: whether the output folder may contain an unfinished run.
        change: new values of trial fields. They replace the resolved values.

    Raises:
        Problems: all problems that were found.
    """
    load_plugins(raw)
    from sweeper.settings.resolve import resolve

    resolved = resolve(command, raw, choices(), problems)
    resolved = replace(resolved, base=replace(resolved.base, **change))
    found = [*check_world(resolved, continues=continues), *resolved.options.problems]
    found.sort(key=lambda item: item.field == DATA)
    refuse(found)
    return resolved


def choices() -> Choices:
    """Return the valid names of samplers and schedulers."""
    from sweeper.search.samplers import LEARNING, SAMPLERS
    from sweeper.search.schedulers import SCHEDULERS
    from sweeper.settings.fields import NO_SCHEDULER

    return {"sampler": tuple(SAMPLERS), "scheduler": (NO_SCHEDULER, *SCHEDULERS), "learning": LEARNING}


def load_plugins(raw: Raw) -> None:
    """Load the plug-ins and template files. Must be called before any registry is read.

    Raises:
        Problems: a plug-in is broken, or defines a name that this project already uses.
    """
    from sweeper.settings.sources import is_template_file

    paths = [str(one.value) for one in raw.get("plugin", ())]
    paths += [str(one.value) for one in raw.get("template", ()) if is_template_file(str(one.value))]
    problems: list[str] = []
    for path in paths:
        place = Path(path).absolute()
        try:
            plugins.use([plugins.read(place, place=str(place))])
        except plugins.PluginError as error:
            problems += error.problems
    refuse(problems)
    if plugins.active():
        from sweeper.store.columns import plugin_problems
        from trainables.spec_checks import clashes

        refuse(clashes() or plugin_problems())


def check_world(resolved: Resolved, *, continues: bool = False) -> list[Problem]:
    """Return the problems with the files and services that the options name."""
    values, base = resolved.options.values, resolved.base
    found = [*output_problems(values.get("out"), continues=continues), *_model_problems(resolved)]
    if "tracking_uri" in values:
        found += _service_problems(values)
    for name in ("warm_start", "reuse"):
        if not any(item.field == name for item in resolved.options.problems):
            found += _folder_problems(values, name)
    # Checks over the network take seconds, so they run only if no other problem was found.
    is_wrong = bool(found or resolved.options.problems)
    found += [stated(text, DATA) for text in source_problems(base, ask_hub=not is_wrong)]
    if found or resolved.options.problems:
        return found
    if is_address(values.get("storage")):  # the slowest check is last
        found += _stated("storage", storage_problem(values["storage"]))
    return found


def _stated(field: str, *texts: str | None) -> list[Problem]:
    return [stated(text, field) for text in texts if text]


def output_problems(out: str | None, *, continues: bool = False) -> list[Problem]:
    """Return the problems with an output folder, which must be new or empty.

    If ``continues`` is true, the folder may also contain an unfinished run.
    """
    if out is None:
        return []
    folder = Path(out)
    if found := place_problems(out):
        return found
    if (folder / "sweep.json").exists():
        return [problem("out-sweep", "out", out=folder, command=resume_command(folder))]
    if folder.is_dir() and any(folder.iterdir()):
        from sweeper.store.unfinished_run import RunFile

        if not continues or RunFile.read(folder) is None:
            return [problem("out-not-empty", "out", out=folder)]
    return []


def place_problems(out: str) -> list[Problem]:
    """Return a problem if no file can be written to the output folder."""
    if not out:
        return [problem("out-empty", "out")]
    if "://" in out:
        return [problem("out-address", "out", out=out)]
    folder = Path(out)
    parent = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not parent.is_dir():
        return [problem("out-file", "out", out=folder, file="this" if parent == folder else parent)]
    if not os.access(parent, os.W_OK):
        return [problem("out-not-writable", "out", out=folder, folder=parent)]
    return []


def model_folder_problems(folder: Path, *, flag: str, modality: Modality, processor: bool = True) -> list[Problem]:
    """Return the problems with a model folder."""
    if not folder.is_dir():
        return [problem("model-folder-missing", flag=flag, folder=folder)]
    reasons = modality.folder_problems(folder, processor=processor)
    return [problem("model-folder", flag=flag, folder=folder, reason=reason) for reason in reasons]


def _model_problems(resolved: Resolved) -> Iterator[Problem]:
    from trainables.modality import dataset_modality
    from trainables.models.registry import MODELS, is_hub_id
    from trainables.objectives.rmu import layer_problem
    from trainables.spec import FIELDS

    values, base = resolved.options.values, resolved.base
    model = values.get("model")
    has_path = values.get("model_path") or values.get("target_path")
    if model and model not in MODELS and is_hub_id(model) and not has_path and Path(model).is_dir():
        yield problem("model-is-folder", "model", model=model)
    modality = dataset_modality(base.dataset)
    for name in ("model_path", "target_path", "retain_path"):
        if folder := values.get(name):
            needed, flag = name != "model_path", FIELDS[name].flag
            yield from model_folder_problems(Path(folder), flag=flag, modality=modality, processor=needed)
    layers = resolved.options.method_options.get("layer", ())
    depth = _depth(base) if layers and not any("layer" in item.text for item in resolved.options.problems) else None
    if depth is not None:
        yield from _stated("option", *(layer_problem(value, depth=depth) for value in layers))
    yield from _chat_problems(base)


def _depth(spec: TrialSpec) -> int | None:
    """Return the number of decoder blocks of the model, or None if no local file has this number."""
    from trainables.models.hub_cache import cached_snapshot
    from trainables.models.registry import MODELS
    from trainables.models.tiny import LAYERS, TWINS

    folder: str | Path | None = spec.target_path or spec.model_path
    if folder is None and spec.model in TWINS:
        return LAYERS
    if folder is None and spec.model in MODELS and (hub_id := MODELS[spec.model].hub_id) is not None:
        folder = cached_snapshot(hub_id)
    config = _read_json(Path(folder) / "config.json") if folder else {}
    depth = config.get("num_hidden_layers", config.get("n_layer"))
    return depth if isinstance(depth, int) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _chat_problems(spec: TrialSpec) -> Iterator[Problem]:
    """Yield a problem if the tokenizer is known to lack the required chat template."""
    from trainables.models.registry import MODELS
    from trainables.target.target import CHAT_FILE
    from trainables.template import CHAT, WITHOUT_CHAT

    if spec.template != CHAT:
        return
    whose = ""
    if folder := spec.target_path or spec.model_path:
        has_template = "chat_template" in _read_json(Path(folder) / "tokenizer_config.json")
        if not has_template and not (Path(folder) / CHAT_FILE).is_file():
            whose = f"the tokenizer in {folder}"
    elif spec.model in MODELS and MODELS[spec.model].hub_id is None and MODELS[spec.model].make is None:
        whose = f"the tokenizer of {spec.model} (a locally built model)"
    if whose:
        yield problem("no-chat-template", "template", whose=whose, remedy=WITHOUT_CHAT)


def source_problems(spec: TrialSpec, *, ask_hub: bool) -> list[str]:
    """Return the problems with the data files and the hub repositories of a trial."""
    from trainables.data import DATASETS, DataError
    from trainables.models.registry import find_model
    from trainables.target.target import target_spec_of

    dataset = DATASETS.get(spec.dataset)
    if dataset is None:
        return []
    found = list(dataset.folder_problems(spec.data_dir))
    hub: list[tuple[str, str]] = []
    if dataset.hub_id is not None and spec.data_dir is None:
        hub.append(("dataset", dataset.hub_id))
    elif not (
        found
        or dataset.choice_problems(spec.forget_split, spec.forget_class, spec.data_seed)
        or (spec.limit is not None and spec.limit <= 0)
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


def _service_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    from sweeper.execution.placement import address_problem
    from sweeper.settings.tracking_uri import tracking_problem

    yield from _stated("tracking_uri", tracking_problem(values["tracking_uri"]))
    yield from _stated("address", address_problem(values.get("address")))
    storage = values.get("storage")
    if storage and is_address(storage):
        yield from _stated("storage", storage_address_problem(storage))
    elif storage and Path(storage).exists() and not Path(storage).is_dir():
        yield problem("storage-file", "storage", storage=storage)


def _folder_problems(values: Mapping[str, Any], name: str) -> Iterator[Problem]:
    from sweeper.settings.objectives import objective_set
    from sweeper.store.event_log import EventLogError, read_state
    from sweeper.store.folder import SweepError, read_settings

    flag, ours = f"--{name.replace('_', '-')}", values.get("objectives", "")
    for folder in values.get(name) or ():
        try:
            theirs = read_settings(Path(folder)).objectives
            read_state(Path(folder))
        except (SweepError, EventLogError) as error:
            yield problem("previous-unusable", name, flag=flag, folder=folder, reason=error)
            continue
        if name == "warm_start" and objective_set(theirs) != objective_set(ours):
            yield problem("previous-objectives", name, flag=flag, folder=folder, theirs=theirs, ours=ours)
