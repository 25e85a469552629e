"""Resolve given values to settings: apply defaults, build the space, and check rules between options.

This module reads only the files of search spaces and of enqueued points. Models, data and services are checked in
``sweeper.checks``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sweeper.settings.fields import PARETO, RUN, STUDY
from sweeper.settings.problems import Problem
from sweeper.settings.sources import Options, Raw, command_line
from sweeper.settings.spaces import spec_problems
from sweeper.settings.study import resolve_study
from sweeper.settings.sweeps import Catalog, Resolved, base_spec, default_lr, resolve_sweep
from trainables.methods import parse_method
from trainables.spec import FIELDS


def resolve(command: str, raw: Raw, catalog: Catalog, problems: Sequence[Problem] = ()) -> Resolved:
    """Return the settings that result from the values, and all problems. The given ``problems`` come first."""
    options = Options(command, raw, catalog.choices, problems)
    if command == PARETO:
        resolved = resolve_sweep(options, catalog)
    elif command == STUDY:
        resolved = resolve_study(options, catalog)
    elif command == RUN:
        resolved = _run(options)
    else:
        base = base_spec(options)
        options.extend(spec_problems(base, (), {}))
        resolved = Resolved(base, options.values, options.problems, spec=base)
    if resolved.settings is not None:
        resolved.settings = replace(resolved.settings, given=_recorded(options), command=command_line(command, raw))
    return resolved


def _run(options: Options) -> Resolved:
    if options["landscape"] is not None and (options["auto_lr"] != "on" or options["out"] is None):
        options.reject("landscape-alone", "landscape")
    values = options.method_options()
    counts = {f"option {name}": len(given) for name, given in values.items()}
    for title, count in (counts | {f"--{name}": len(options[name]) for name in ("method", "lr")}).items():
        if count > 1:
            options.reject("one-value", title=title, count=count)
    spec = base_spec(options)
    lr = options["lr"][0] if options["lr"] else default_lr(spec)
    spec = replace(spec, lr=lr, auto_lr=options["auto_lr"])
    methods = tuple(dict.fromkeys(options["method"])) or (FIELDS["method"].default,)
    options.extend(spec_problems(spec, methods, values))
    if not options.problems and spec.auto_lr == "off":
        options.without_auto_lr("give --auto-lr on")
    resolved = Resolved(spec, options.values, options.problems, values)
    if not options.problems:
        chosen = parse_method(methods[0]).resolve({name: given[0] for name, given in values.items()})
        resolved.spec = replace(spec, method=methods[0], options=tuple(sorted(chosen.items())))
    return resolved


def _recorded(options: Options) -> Raw:
    """Return the values for sweep.json, with absolute paths for existing files."""
    return {
        name: [replace(one, value=_absolute(one.value)) for one in given] if options.fields[name].is_path else given
        for name, given in options.raw.items()
    }


def _absolute(path: str | float | bool) -> str | float | bool:
    return str(Path(path).resolve()) if isinstance(path, str) and path and Path(path).exists() else path
