"""Check that the files and services that the options name can be used."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from search_spaces.common.durable import LOCK
from search_spaces.common.messages import resume_command
from sweeper.settings.options import ModelOptions, ParetoFields, RunOptions, SweepOptions
from sweeper.settings.reading import Problem, about, method_options
from sweeper.settings.sources import Problems, Raw, raise_if_any
from trainables import plugins
from trainables.question_sets import file_problem, name_problem
from trainables.storage import address_problem as storage_address_problem
from trainables.storage import is_address, storage_problem

if TYPE_CHECKING:
    from sweeper.settings.resolve import Resolved
    from trainables.modality import Modality
    from trainables.spec import TrialSpec

M = TypeVar("M", bound=ModelOptions)


def resolve_and_check(
    command: type[M], raw: Raw, problems: Sequence[str] = (), *, continues: bool = False, **changes: Any
) -> Resolved[M]:
    """Load the plug-ins, resolve the option values to settings, and check the settings.

    If ``continues`` is true, the output folder may contain an unfinished run. ``changes`` maps names of trial fields to
    values that replace the resolved values.

    Raises:
        Problems: there are problems. The exception lists all of them, including those in the argument ``problems``.
    """
    load_plugins(raw, problems)
    from sweeper.settings.resolve import resolve

    resolved = _with_recorded_recipe(resolve(command, raw, problems))
    resolved = replace(resolved, base=replace(resolved.base, **changes))
    resolved = check_files_and_services(resolved, continues=continues)
    raise_if_any(resolved.messages)
    return _with_template_date(resolved, continues=continues)


def _with_recorded_recipe(resolved: Resolved[M]) -> Resolved[M]:
    """Set the learning rate and LoRA rank with which a given target was fine-tuned, if its folder records them.

    The attacks that train a model use them, unless the user gives other values.
    """
    from sweeper.export.target_of_model import recorded_recipe

    base = resolved.base
    recipe = recorded_recipe(Path(base.target_path)) if base.target_path else None
    if recipe is None or base.target_lr is not None:
        return resolved
    changes = {"target_lr": recipe["lr"], "target_lora_rank": recipe["lora_rank"] or 0}
    settings = resolved.settings
    if settings is not None:
        settings = replace(settings, base=replace(settings.base, **changes))
    return replace(resolved, base=replace(base, **changes), settings=settings)


def _with_template_date(resolved: Resolved[M], *, continues: bool) -> Resolved[M]:
    """Set the date that the template sees, if the template uses the date. An unfinished run keeps its date."""
    from trainables.target.template_date import DateError, template_date

    default = None
    if continues and resolved.options.out:
        from sweeper.store.unfinished_run import RunFile

        run_file = RunFile.read(Path(resolved.options.out))
        default = run_file.spec.template_date if run_file else None
    try:
        date = template_date(resolved.base, default=default)
    except DateError as error:
        raise Problems([str(error)]) from None
    settings = resolved.settings
    if settings is not None:
        settings = replace(settings, base=replace(settings.base, template_date=date))
    return replace(resolved, base=replace(resolved.base, template_date=date), settings=settings)


def load_plugins(raw: Raw, problems: Sequence[str] = ()) -> None:
    """Load the plug-ins and template files that the options name. Call this function before any registry is read.

    A missing template file is ignored, because :func:`.read` reports it together with the other problems.

    Raises:
        Problems: a plug-in is missing or broken, or defines a name that this project already uses. The exception lists
            the argument ``problems``, too.
    """
    plugin_values = raw.get("plugin", ())
    files = [given for given in (*plugin_values, *raw.get("template", ())) if os.path.isfile(str(given.value))]
    messages = [
        f"{given.prefix}--plugin {given.value}: no such file; expected a file as in docs/extend.md"
        for given in plugin_values
        if given not in files
    ]
    for given in raw.get("questions", ()):
        name, _, file = str(given.value).partition("=")
        path = Path(file).expanduser().absolute()
        if not file:
            problem: str | None = f"expected NAME=FILE, got '{given.value}'"
        else:
            problem = name_problem(name) or file_problem(path)
        try:
            if problem is None:
                plugins.use([plugins.read_questions(name, path, user_path=str(path))])
            else:
                messages.append(f"{given.prefix}--questions {given.value}: {problem}")
        except plugins.PluginError as error:
            messages += error.problems
    messages += _load_tasks(raw)
    for given in files:
        path = Path(str(given.value)).absolute()
        try:
            plugins.use([plugins.read(path, user_path=str(path))])
        except plugins.PluginError as error:
            messages += error.problems
    if messages:
        raise Problems([*problems, *messages])
    if plugins.active():
        from sweeper.store.columns import plugin_problems
        from trainables.spec_checks import name_conflicts

        raise_if_any(name_conflicts() or plugin_problems())


def _load_tasks(raw: Raw) -> list[str]:
    """Load the tasks of lm-eval that ``--metrics`` names, as plug-ins. Return the problems."""
    from trainables.lm_eval_tasks import find_tasks, task_names

    names = [name for given in raw.get("metrics", ()) for name in task_names(str(given.value))]
    given_folders = raw.get("lm_eval_tasks", ())
    if not names:
        remedy = "--metrics names no task; add one, such as --metrics default,lm_eval:TASK"
        return [f"{given.prefix}--lm-eval-tasks {given.value}: {remedy}" for given in given_folders]
    folders = [Path(str(given.value)).expanduser().absolute() for given in given_folders]
    try:
        plugins.use(find_tasks(names, folders[-1] if folders else None))
    except plugins.PluginError as error:
        return list(error.problems)
    return []


def check_files_and_services(resolved: Resolved[M], *, continues: bool = False) -> Resolved[M]:
    """Check the files and services that the options name. Return a copy with the problems added."""
    options = resolved.options
    problems = list(resolved.problems)
    problems += about("out", *output_problems(options.out, continues=continues))
    problems += about("", _cache_problem())
    problems += _model_problems(options, resolved.base, problems)
    if isinstance(options, SweepOptions):
        problems += _service_problems(options)
        problems += _folder_problems(options)
    # Checks over the network take seconds, so they run only if no other problem was found.
    spec = resolved.base
    if resolved.settings is not None:
        from sweeper.settings.sweep_settings import attacked_spec, with_metrics

        space = resolved.settings.space
        is_searched = any(item.name == "interpolate" and item.accepts("on") for item in space.parameters)
        if is_searched or space.constants.get("interpolate") == "on":
            spec = replace(spec, interpolate="on")
        spec = with_metrics(attacked_spec(spec, resolved.settings.attacks), resolved.settings.after_search)
    problems += map(Problem, source_problems(spec, ask_hub=not problems))
    if isinstance(options, SweepOptions) and options.storage and is_address(options.storage) and not problems:
        problems += about("storage", storage_problem(options.storage))
    return replace(resolved, problems=problems)


def output_problems(out: str | None, *, continues: bool = False) -> list[str]:
    """Return the problems with an output folder, which must be new or empty.

    If ``continues`` is true, the folder may also contain an unfinished run.
    """
    if out is None:
        return []
    folder = Path(out)
    if problems := write_problems(out):
        return problems
    if (folder / "sweep.json").exists():
        remedy = f"continue that sweep with '{resume_command(folder)}', or name another folder"
        return [f"--out {out}: the folder holds another sweep; {remedy}"]
    if folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()):  # a run that wrote nothing leaves LOCK
        from sweeper.store.unfinished_run import RunFile

        if not continues or RunFile.read(folder) is None:
            return [f"--out {out}: the folder is not empty; name a new or an empty folder"]
    return []


def write_problems(out: str) -> list[str]:
    """Return a list with the reason why no file can be written to the output folder, or [] if files can be written."""
    if not out:
        return ["--out must be the name of a folder, got nothing"]
    if "://" in out:
        return [
            f"--out {out}: the output folder cannot be in object storage; expected a local folder, or for a cluster a "
            "folder that all nodes share (NFS); to exchange the files of workers through a bucket, use --storage"
        ]
    reason = _unwritable(Path(out))
    return [f"--out {out}: {reason}"] if reason else []


def _unwritable(folder: Path) -> str | None:
    """Return the reason why no file can be written to a folder, which may not exist yet, or None."""
    parent = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not parent.is_dir():
        return f"{parent} is a file, expected a folder"
    return None if os.access(parent, os.W_OK) else f"{parent} is not writable"


def _cache_problem() -> str | None:
    from trainables.target.cache import cache_folder

    folder = cache_folder()
    reason = _unwritable(folder)
    if reason is None:
        return None
    return f"targets are kept in {folder}: {reason}; name a folder that you can write with XDG_CACHE_HOME=FOLDER"


def model_folder_problems(folder: Path, *, flag: str, modality: Modality, processor: bool = True) -> list[str]:
    if not folder.is_dir():
        expected = "expected a model folder with config.json, safetensors and a tokenizer"
        return [f"{flag} {folder}: no such folder; {expected}"]
    return [f"{flag} {folder}: {reason}" for reason in modality.folder_problems(folder, processor=processor)]


def _model_problems(options: ModelOptions, base: TrialSpec, problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the problems with the model folders and the template. ``problems`` are those found before."""
    from trainables.modality import dataset_modality
    from trainables.models.registry import MODELS, is_hub_id
    from trainables.objectives.rmu import layer_problem
    from trainables.spec import FIELDS

    model = options.model
    has_path = options.model_path or options.target_path
    if model and model not in MODELS and is_hub_id(model) and not has_path and Path(model).is_dir():
        yield Problem(f"--model {model}: this is a folder; give it with --model-path {model}", "model")
    modality = dataset_modality(base.dataset)
    folders = {
        "model_path": options.model_path, "target_path": options.target_path, "retain_path": options.retain_path
    }  # fmt: skip
    for name, folder in folders.items():
        if folder:
            needs_processor = name != "model_path"
            yield from about(
                name,
                *model_folder_problems(
                    Path(folder), flag=FIELDS[name].flag, modality=modality, processor=needs_processor
                ),
            )
    has_layer_problem = any("layer" in problem.text for problem in problems)
    if isinstance(options, SweepOptions | RunOptions) and not has_layer_problem:
        layers = method_options(options.option, options.c).get("layer", ())
        depth = _depth(base) if layers else None
        if depth is not None:
            yield from about("option", *(layer_problem(value, depth=depth) for value in layers))
    yield from about("template", *_chat_problems(base))


def _depth(spec: TrialSpec) -> int | None:
    """Return the number of decoder blocks of the model, or None if no local file has this number."""
    from trainables.models.hub_cache import cached_snapshot
    from trainables.models.registry import MODELS
    from trainables.models.tiny import LAYERS, TINY_MODELS

    folder: str | Path | None = spec.target_path or spec.model_path
    if folder is None:
        if spec.model in TINY_MODELS:
            return LAYERS
        hub_id = MODELS[spec.model].hub_id if spec.model in MODELS else None
        folder = cached_snapshot(hub_id) if hub_id is not None else None
    if not folder:
        return None
    config = _read_json(Path(folder) / "config.json")
    depth = config.get("num_hidden_layers", config.get("n_layer"))
    return depth if isinstance(depth, int) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _chat_problems(spec: TrialSpec) -> Iterator[str]:
    """Yield a problem if the template is ``chat`` but a local tokenizer has no chat template."""
    from trainables.models.registry import MODELS
    from trainables.target.target import CHAT_FILE
    from trainables.template import CHAT, WITHOUT_CHAT

    if spec.template != CHAT:
        return
    info = MODELS.get(spec.model)
    is_built_locally = info is not None and info.hub_id is None and info.make is None
    tokenizer = ""
    if folder := spec.target_path or spec.model_path:
        has_template = "chat_template" in _read_json(Path(folder) / "tokenizer_config.json")
        if not has_template and not (Path(folder) / CHAT_FILE).is_file():
            tokenizer = f"the tokenizer in {folder}"
    elif is_built_locally:
        tokenizer = f"the tokenizer of {spec.model} (a locally built model)"
    if tokenizer:
        yield f"--template chat: {tokenizer} has no chat template; {WITHOUT_CHAT}"


def source_problems(spec: TrialSpec, *, ask_hub: bool) -> list[str]:
    """Return the problems with a trial's data files and, if ``ask_hub`` is true, with hub repositories and models."""
    from trainables.data import DATASETS, DataError
    from trainables.modality import dataset_modality
    from trainables.models.registry import find_model
    from trainables.run.interpolation import unscored_rows
    from trainables.target.notes import overlap_notes
    from trainables.target.target import target_spec_of

    dataset = DATASETS.get(spec.dataset)
    if dataset is None:
        return []
    problems = list(dataset.folder_problems(spec.data_dir))
    repositories: list[tuple[str, str]] = []
    target_spec = None
    if dataset.hub_id is not None and spec.data_dir is None:
        repositories.append(("dataset", dataset.hub_id))
    else:
        has_problem = problems or dataset.choice_problems(spec.forget_split, spec.forget_class, spec.data_seed)
        is_limit_valid = spec.limit is None or spec.limit > 0
        if is_limit_valid and not has_problem:
            try:
                target_spec = target_spec_of(spec)
                target_spec.metric_names()
                overlap_notes(target_spec)
                if spec.interpolate == "on":
                    unscored_rows(target_spec.data)
            except DataError as error:
                problems += error.problems
    hub_id = find_model(spec.model).hub_id
    if spec.model_path is None and spec.target_path is None and hub_id is not None:
        repositories.append(("model", hub_id))
    if repositories and ask_hub and not problems:
        from sweeper.checks.hub import hub_problems

        problems += hub_problems(repositories)
    if ask_hub and not problems:
        from sweeper.checks.models import model_problems

        problems += model_problems(spec, dataset_modality(spec.dataset), target_spec)
    return problems


def _service_problems(options: SweepOptions) -> Iterator[Problem]:
    from sweeper.execution.placement import address_problem
    from sweeper.settings.tracking_uri import default_uri, tracking_problem

    storage = options.storage
    yield from about("tracking_uri", tracking_problem(options.tracking_uri or default_uri()))
    yield from about("address", address_problem(options.address))
    if storage and is_address(storage):
        yield from about("storage", storage_address_problem(storage))
    elif storage and Path(storage).exists() and not Path(storage).is_dir():
        yield from about("storage", f"--storage {storage}: this is a file, expected a folder")


def _folder_problems(options: SweepOptions) -> Iterator[Problem]:
    """Yield the problems with the folders of ``--warm-start`` and ``--reuse``."""
    from sweeper.settings.objectives import objective_set
    from sweeper.store.event_log import EventLogError, read_state
    from sweeper.store.folder import SweepError, read_settings

    warm_start = options.warm_start if isinstance(options, ParetoFields) else ()
    for name, folders in (("warm_start", warm_start), ("reuse", options.reuse)):
        for folder in folders:
            flag = f"--{name.replace('_', '-')}"
            try:
                objectives = read_settings(Path(folder)).objectives
                read_state(Path(folder))
            except (SweepError, EventLogError) as error:
                yield Problem(f"{flag} {folder}: {error}", name)
                continue
            if name == "warm_start" and objective_set(objectives) != objective_set(options.objectives):
                yield Problem(
                    f"{flag} {folder}: that sweep optimises {objectives}, but this sweep optimises "
                    f"{options.objectives}: metrics and directions must be the same",
                    name,
                )
