"""Load plug-ins: files that define entries for the project's registries.

There are four kinds of plug-ins. A Python file defines variables listed in :data:`KINDS`. A Jinja file contains a
prompt template. A file ``NAME.questions.jsonl`` contains a question set (:mod:`trainables.question_sets`), and a file
``NAME.lm_eval.json`` describes a task of lm-eval (:mod:`trainables.lm_eval_tasks`).

A registry reads the active plug-ins only once, when it is first used. So activate all plug-ins before the first use of
a registry. A worker gets the list of plug-ins from an environment variable, and verifies that no plug-in has changed
since the sweep started.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

VARIABLE = "SWEEPER_PLUGINS"
"""The environment variable with the paths of a worker's plug-ins and their digests."""
KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "WEIGHTING": ("weighting", "Weighting"),
        "OBJECTIVE": ("objective", "ForgetObjective"),
        "METRICS": ("metric", "Metric"),
        "DATASETS": ("data set", "DataSet"),
        "MODELS": ("model", "ModelInfo"),
        "TEMPLATES": ("template", "Template"),
        "UPDATE": ("update", "Update"),
        "ATTACK": ("attack", "Attack"),
    }
)
"""The variables of a plug-in, with the kind and class of their entries. A variable holds one entry or a tuple."""
QUESTION_SET = "question set"
"""The kind of the entry that holds the questions of a question set."""
_QUESTIONS, _TASK = ".questions", ".lm_eval"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class PluginError(ValueError):
    """Raised if plug-ins cannot be used. ``problems`` has one message for each problem."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Part:
    """A registry entry that a plug-in defines. ``kind`` is the kind of the entry, such as ``weighting``."""

    kind: str
    name: str
    entry: Any


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plug-in. ``path`` is the path of the user's file, even if a sweep's copy of the file was loaded."""

    name: str
    path: str
    source: str
    parts: tuple[Part, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.source)


_active: list[Plugin] | None = None
_used_registries: set[str] = set()


def active() -> tuple[Plugin, ...]:
    """Return the active plug-ins. In a worker, these are the plug-ins of the sweep.

    Raises:
        PluginError: a plug-in is broken, or has changed since the sweep started.
    """
    global _active
    if _active is None:
        _active = []  # loading a plug-in may call this function
        try:
            digest_by_path = json.loads(os.environ.get(VARIABLE, "{}"))
            _active = [_read_unchanged(path, digest) for path, digest in digest_by_path.items()]
        except PluginError:
            _active = None
            raise
    return tuple(_active)


def to_environment(folder: Path) -> dict[str, str]:
    """Return the environment variable that lists the active plug-ins for workers; empty if there are none.

    ``folder`` must contain a copy of each plug-in, and all nodes must be able to read the folder.
    """
    digest_by_path = {str(folder / plugin.name): plugin.digest for plugin in active()}
    return {VARIABLE: json.dumps(digest_by_path)} if digest_by_path else {}


def _read_unchanged(path: str, digest: str) -> Plugin:
    plugin = read(path)
    if plugin.digest != digest:
        raise PluginError(
            f"plug-in {path} differs from the version with which the sweep started; do not change the files in the "
            "sweep's folder"
        )
    return plugin


def use(plugins: Iterable[Plugin]) -> None:
    """Activate plug-ins. Plug-ins that are already active stay active.

    Raises:
        PluginError: a registry has already been used, or another active plug-in has the same name.
    """
    active_by_name = {plugin.name: plugin for plugin in active()}
    for plugin in plugins:
        other = active_by_name.get(plugin.name)
        if other is not None and other.digest == plugin.digest:
            continue
        if _used_registries:
            raise PluginError(
                f"plug-in {plugin.path} cannot be loaded, because the registries of this process are already in use; "
                "pass all plug-ins to the first call in a process; after a change of a plug-in's file, start a "
                "new process (in a notebook: restart the kernel); in a plug-in, import each class from the module that "
                "defines the class, as in docs/extend.md"
            )
        if other is not None:
            raise PluginError(f"two plug-ins have the name {plugin.name}: {other.path} and {plugin.path}; rename one")
        assert _active is not None
        _active.append(plugin)
        active_by_name[plugin.name] = plugin


def parts_for(attribute: str) -> list[Part]:
    """Return the entries that plug-ins add to a registry. After this call, plug-ins can no longer be activated."""
    _used_registries.add(attribute)
    kind, _ = KINDS[attribute]
    return [part for plugin in active() for part in plugin.parts if part.kind == kind]


def owner(kind: str, name: str | None) -> Plugin | None:
    """Return the plug-in that defines an entry; None if the entry is not from a plug-in."""
    for plugin in active():
        if any(part.kind == kind and part.name == name for part in plugin.parts):
            return plugin
    return None


def digests(entries: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return the sorted digests of the plug-ins that define the entries. An entry is a pair ``(kind, name)``."""
    owners = [owner(kind, name) for kind, name in entries]
    return sorted({plugin.digest for plugin in owners if plugin is not None})


# Reading ---------------------------------------------------------------------------------------------------------


def read(path: Path | str, *, user_path: str | None = None) -> Plugin:
    """Load a plug-in from a file. A Python file is executed. Messages name the file ``user_path``, by default ``path``.

    Raises:
        PluginError: the file has problems. The error lists all problems.
    """
    path = Path(path)
    user_path = user_path or str(path)
    if is_question_set(path.name):
        return read_questions(set_name(path.name), path, user_path=user_path)
    if is_task(path.name):
        # Imported by name, because tasks are plug-ins.
        plugin: Plugin = import_module("trainables.lm_eval_tasks").read_plugin(path, user_path=user_path)
        return plugin
    try:
        source = path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise PluginError(f"plug-in {user_path} cannot be read: {error}") from None
    parts: tuple[Part, ...]
    if path.suffix == ".py":
        module_suffix = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
        module = _run(source, user_path, name=f"sweeper_plugin_{module_suffix}")
        parts = _parts(module, user_path)
    else:
        parts = (_template_part(source, user_path, name=path.stem),)
    return Plugin(name=path.name, path=user_path, source=source, parts=parts)


def is_question_set(file_name: str) -> bool:
    """Return whether a plug-in with this file name is a question set."""
    return Path(file_name).with_suffix("").suffix == _QUESTIONS


def is_task(file_name: str) -> bool:
    """Return whether a plug-in with this file name describes a task of lm-eval."""
    return Path(file_name).with_suffix("").suffix == _TASK


def set_name(file_name: str) -> str:
    """Return the name of the question set in a plug-in with this file name."""
    return file_name.partition(".")[0]


def read_questions(name: str, path: Path, *, user_path: str) -> Plugin:
    """Load a question set from a file. ``user_path`` is the path of the user's file.

    Raises:
        PluginError: the file cannot be read, or rows are malformed. The error lists all problems.
    """
    try:
        # Imported by name, because question sets are read by modules that use plug-ins.
        parts = import_module("trainables.question_sets").read_parts(name, path)
    except ValueError as error:  # a DataError
        raise PluginError(*getattr(error, "problems", (str(error),))) from None
    source = path.read_text(encoding="utf-8-sig")
    return Plugin(name=f"{name}{_QUESTIONS}{path.suffix}", path=user_path, source=source, parts=parts)


def digest_of(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _template_part(source: str, path: str, *, name: str) -> Part:
    from trainables.template import Template, template_problems

    if problems := template_problems(source):
        raise PluginError(*(f"template {path}: {problem}" for problem in problems))
    entry = Template(name=name, text=source.removesuffix("\n"), description=f"from {path}")
    return Part(kind="template", name=name, entry=entry)


def _run(source: str, path: str, *, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # the plug-in's classes are pickled by reference to this module
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise PluginError(error_text(path, error, subject="plug-in")) from None
    return module


def error_text(path: str, error: BaseException, *, subject: str) -> str:
    """Return a message for an error that a plug-in raised: ``SUBJECT PATH, line 3: TypeError: ...``."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = lines[-1] if lines else getattr(error, "lineno", None)  # a syntax error has no frame in the file
    place = path if line is None else f"{path}, line {line}"
    return f"{subject} {place}: {type(error).__name__}: {error}"


def _parts(module: ModuleType, path: str) -> tuple[Part, ...]:
    from trainables.template import template_problems

    parts: list[Part] = []
    problems = []
    for attribute, (kind, class_name) in KINDS.items():
        value = vars(module).get(attribute, ())
        prefix = f"plug-in {path}: {attribute}"
        entries = value if isinstance(value, tuple | list) else (value,)
        for entry in entries:
            if type(entry).__name__ != class_name:
                problems.append(f"{prefix} holds an object of type {type(entry).__name__}, expected {class_name}")
            elif not isinstance(entry.name, str) or not _NAME.fullmatch(entry.name):
                problems.append(f"{prefix}: the name {entry.name!r} may only contain letters, digits, '_', '-' and '.'")
            elif attribute == "MODELS" and entry.hub_id is None and entry.make is None:
                problems.append(
                    f"{prefix}: model '{entry.name}' needs hub_id (a repository) or make (a function that builds "
                    "the model)"
                )
            elif attribute == "TEMPLATES" and (texts := template_problems(entry.text)):
                problems += [f"{prefix}: template '{entry.name}': {text}" for text in texts]
            else:
                parts.append(Part(kind, entry.name, entry))
    if not parts and not problems:
        problems.append(f"plug-in {path} defines no entries: expected {_variable_names()}")
    if problems:
        raise PluginError(*problems)
    return tuple(parts)


def _variable_names() -> str:
    *names, last = KINDS
    return f"{', '.join(names)} or {last} (docs/extend.md)"
