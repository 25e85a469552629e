"""A user's own parts: files that define what a file of the project's packages would, and become entries like theirs.

A plug-in is a Python file with one or more of :data:`KINDS`, a Jinja file, which is a prompt template, or a module that
an installed package names as an entry point of the group ``sweeper.plugins``. The registries are filled once, where
they are first looked at: plug-ins come before. A worker finds in its environment which files to read, and whether they
are what the sweep began with.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from search_spaces.messages import did_you_mean

GROUP = "sweeper.plugins"
"""The group of entry points of installed plug-ins."""
VARIABLE = "SWEEPER_PLUGINS"
"""What names the plug-ins to a worker, see :func:`to_environment`."""
KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "WEIGHTING": ("weighting", "Weighting"),
        "OBJECTIVE": ("objective", "ForgetObjective"),
        "METRICS": ("metric", "Metric"),
        "DATASETS": ("data set", "DataSet"),
        "MODELS": ("model", "ModelInfo"),
        "TEMPLATES": ("template", "Template"),
    }
)
"""What a plug-in may define, an entry or a tuple of them: what that is called, and the class of its entries."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class PluginError(ValueError):
    """What is wrong with plug-ins, in plain sentences with file and line."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Part:
    """One entry of a plug-in; ``line`` is where its file defines it."""

    kind: str
    name: str
    entry: Any
    line: int


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in that has been read.

    Attributes:
        name: its file's name, ``toy.py``, or that of its entry point.
        place: the file it was first read from, or the package it is installed with.
        digest: 16 hex digits of its source.
        installed: whether a package brings it, so that it is on a worker if the package is.
    """

    name: str
    place: str
    source: str
    digest: str
    parts: tuple[Part, ...]
    installed: bool = False


_active: list[Plugin] | None = None
_filled: set[str] = set()
_clashes: list[str] = []


def active() -> tuple[Plugin, ...]:
    """The plug-ins of this process: at first those that are installed, and of a worker those of its sweep.

    Raises:
        PluginError: one of them is broken, or is not what the sweep began with.
    """
    global _active
    if _active is None:
        _active = []  # what is read below may ask, too
        try:
            _active = [*_installed(), *_of_environment()]
        except PluginError:
            _active = None
            raise
        _require_of_sweep(_active)
    return tuple(_active)


def use(plugins: Iterable[Plugin]) -> None:
    """Make the parts of plug-ins entries of the registries; those that are already stay.

    Raises:
        PluginError: the registries are filled, or another plug-in has the name.
    """
    known = {plugin.name: plugin for plugin in active()}
    for plugin in plugins:
        other = known.get(plugin.name)
        if other is not None and other.digest == plugin.digest:
            continue
        if _filled:
            raise PluginError(
                f"plug-in {plugin.place} comes too late, or has changed: the parts of this process are chosen from "
                "already; name plug-ins in the first call, and start a new process (a notebook: its kernel) after a "
                "change"
            )
        if other is not None:
            raise PluginError(f"two plug-ins are called {plugin.name}: {other.place} and {plugin.place}; rename one")
        assert _active is not None
        _active.append(plugin)
        known[plugin.name] = plugin


def added(attribute: str, taken: Collection[str]) -> list[Any]:
    """The entries plug-ins add to the registry of an ``attribute``, which has the names ``taken``; it is filled then.

    What has a name that exists is left out, and told by :func:`left_out`.
    """
    _filled.add(attribute)
    kind, found = KINDS[attribute][0], {}
    for plugin in active():
        for part in plugin.parts:
            if part.kind != kind:
                continue
            if part.name in taken or part.name in found:
                _clashes.append(
                    f"{plugin.place}, line {part.line}: there is a {kind} called '{part.name}' already; rename yours"
                )
            else:
                found[part.name] = part.entry
    return list(found.values())


def left_out() -> list[str]:
    """What the registries that have been looked at do not hold, as its name is taken."""
    return [*dict.fromkeys(_clashes)]


def owner(kind: str, name: str | None) -> Plugin | None:
    """The plug-in that has the part of this name; None of the project's own."""
    return next((item for item in active() if any((part.kind, part.name) == (kind, name) for part in item.parts)), None)


def digests(named: Iterable[tuple[str, str | None]]) -> list[str]:
    """The digests of the plug-ins whose parts are named, as ``(kind, name)``; empty where all are the project's own."""
    if not active():
        return []
    return sorted({found.digest for kind, name in named if (found := owner(kind, name)) is not None})


# Reading ---------------------------------------------------------------------------------------------------------


def read(path: Path | str, *, place: str | None = None) -> Plugin:
    """The plug-in in a file; ``place`` is what it is called in messages. Runs the file, if it is Python.

    Raises:
        PluginError: all that is wrong with it, by file and line.
    """
    path = Path(path)
    place = place or str(path)
    if not path.is_file():
        raise PluginError(f"plug-in {place}: no such file; expected a .py file with {_expected()}, or a .jinja file")
    try:
        source = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise PluginError(f"plug-in {place}: it cannot be read: {error}") from None
    if path.suffix != ".py":
        from trainables.template import Template, template_problems

        if wrong := template_problems(source):
            raise PluginError(*(f"template {place}: {problem}" for problem in wrong))
        entry = Template(name=path.stem, text=source.removesuffix("\n"), description=f"of {place}")
        return Plugin(path.name, place, source, digest_of(source), (Part("template", path.stem, entry, 1),))
    module = _run(source, place, name=f"sweeper_plugin_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}")
    return Plugin(path.name, place, source, digest_of(source), _parts(module, source, place))


def digest_of(source: str) -> str:
    """16 hex digits of a plug-in's source."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _run(source: str, place: str, *, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = place
    try:
        code = compile(source, place, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise PluginError(f"plug-in {place}, line {line}: {getattr(error, 'msg', error)}") from None
    sys.modules[name] = module  # what it defines is pickled by reference to it
    before = bool(_filled)
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line, trace = 1, error.__traceback__
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == place else line
            trace = trace.tb_next
        raise PluginError(f"plug-in {place}, line {line}: {type(error).__name__}: {error}") from None
    if _filled and not before:
        raise PluginError(
            f"plug-in {place}: what it imports looks through all methods, metrics, models or data sets, which plug-ins "
            "come before; import the classes from their own modules, as docs/extend.md does"
        )
    return module


def _parts(module: ModuleType, source: str, place: str) -> tuple[Part, ...]:
    lines = _lines(source)
    found: list[Part] = []
    problems = []
    for attribute, (kind, expected) in KINDS.items():
        given = vars(module).get(attribute, ())
        for entry in given if isinstance(given, tuple | list) else (given,):
            at = f"plug-in {place}, line {lines.get(attribute, 1)}"
            if type(entry).__name__ != expected:
                problems.append(f"{at}: {attribute} holds a {type(entry).__name__}, expected a {expected}")
            elif not isinstance(entry.name, str) or not _NAME.fullmatch(entry.name):
                problems.append(f"{at}: the name {entry.name!r} is none: letters, digits, '_', '-' and '.' make one")
            elif attribute == "MODELS" and entry.hub_id is None and entry.make is None:
                problems.append(f"{at}: model '{entry.name}' has neither hub_id, its repository, nor make, to make it")
            else:
                found.append(Part(kind, entry.name, entry, lines.get(attribute, 1)))
    if not found and not problems:
        near = next((told for name in vars(module) if name.isupper() and (told := did_you_mean(name, KINDS))), "")
        problems.append(f"plug-in {place}: there is no part in it: expected {_expected()}{near and f'; {near}'}")
    if problems:
        raise PluginError(*problems)
    return tuple(found)


def _lines(source: str) -> dict[str, int]:
    """Where names are given a value, of the top level."""
    found: dict[str, int] = {}
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id: node.lineno for target in targets if isinstance(target, ast.Name)}
    return found


def _expected() -> str:
    *names, last = KINDS
    return f"{', '.join(names)} or {last} (docs/extend.md)"


def _installed() -> list[Plugin]:
    """Those of installed packages."""
    from importlib.metadata import entry_points

    found = []
    for point in sorted(entry_points(group=GROUP), key=lambda item: item.name):
        package = point.dist.name if point.dist is not None else point.module
        place = f"{point.name} (installed with {package})"
        try:
            module = importlib.import_module(point.module)
            source = Path(module.__file__ or "").read_text(encoding="utf-8")
        except Exception as error:
            raise PluginError(
                f"plug-in {place}: {point.module} does not import: {type(error).__name__}: {error}; mend it, or "
                "uninstall the package"
            ) from None
        parts = _parts(module, source, place)
        found.append(Plugin(point.name, place, source, digest_of(source), parts, installed=True))
    return found


# Workers ---------------------------------------------------------------------------------------------------------


def to_environment(files: Mapping[str, Path]) -> dict[str, str]:
    """What tells a worker the active plug-ins: their digests by name, and of those in files where all nodes see them.

    Nothing where there are none.
    """
    told = [[item.name, item.digest, None if item.installed else str(files[item.name])] for item in active()]
    return {VARIABLE: json.dumps(told)} if told else {}


def _told() -> Sequence[tuple[str, str, str | None]]:
    return [(name, digest, path) for name, digest, path in json.loads(os.environ.get(VARIABLE, "[]"))]


def _of_environment() -> list[Plugin]:
    return [read(path) for _, _, path in _told() if path is not None]


def _require_of_sweep(found: Sequence[Plugin]) -> None:
    have = {plugin.name: plugin.digest for plugin in found}
    if wrong := [name for name, digest, _ in _told() if have.get(name) != digest]:
        raise PluginError(
            f"plug-in {', '.join(wrong)}: what this node has is not what the sweep began with; install the same on "
            "every node, and leave the files in the sweep's folder as they are"
        )
