"""From the options of ``lr-study`` to a sweep's settings over a finite grid; raises all problems together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from search_spaces.errors import SpaceError
from search_spaces.lr_study import lr_study_space
from search_spaces.values import plain_name
from sweeper.commands.checks import given_problems
from sweeper.commands.errors import Problems
from sweeper.commands.from_options import DEFAULT_METHODS, sweep_settings
from sweeper.commands.options import read_method_options
from sweeper.settings import LR_STUDY, SweepSettings
from trainables.methods import MethodError, parse_method
from trainables.models.registry import MODELS, local_model
from trainables.spec import AUTO_LR_PROBES, AUTO_LR_SMOOTHINGS, TrialSpec

DEFAULT_C = (0.5, 0.9, 0.99)
DEFAULT_RATES = 5


def lr_study_settings(given: Mapping[str, Any], *, command: str) -> SweepSettings:
    """The settings of a learning-rate study: a grid sweep with AutoLR's arms beside the fixed learning rates.

    Raises:
        Problems: everything that is wrong with the options, the model, the data and the tracking store.
    """
    methods = tuple(dict.fromkeys(given["method"])) or DEFAULT_METHODS
    c = tuple(given["c"]) or (DEFAULT_C if _any_has_c(methods) else ())
    rates = tuple(given["lr"]) or default_rates(given)
    starts = tuple(rate for rate in given["auto_lr_start_lr"] if rate is not None)
    smoothings = tuple(given["auto_lr_smoothing"]) or (TrialSpec().auto_lr_smoothing,)
    probes = tuple(given["auto_lr_probe"]) or (TrialSpec().auto_lr_probe,)
    batches = tuple(count for count in given["auto_lr_probe_batches"] if count is not None)
    own = [
        f"unknown {name} '{value}': expected one of {', '.join(allowed)}"
        for name, values, allowed in (
            ("auto_lr_smoothing", smoothings, AUTO_LR_SMOOTHINGS),
            ("auto_lr_probe", probes, AUTO_LR_PROBES),
        )
        for value in values
        if value not in allowed
    ]
    own += [f"auto_lr_probe_batches must be at least 1, got {count}" for count in batches if count < 1]
    if batches and "fresh" not in probes:
        own.append(f"auto_lr_probe_batches applies to auto_lr_probe fresh only, got {', '.join(probes)}")
    own += [
        f"auto-lr-start-lr must be a finite number greater than 0, got {rate:g}"
        for rate in starts
        if not 0 < rate < math.inf
    ]
    # The paper's grid is finite whatever the methods, so that everything else is checked as pareto checks it.
    shared: dict[str, Any] = {"space": "paper", "sampler": "grid", "trials": None, "auto_lr": "both"}
    shared |= {"auto_lr_smoothing": None, "auto_lr_probe": None, "auto_lr_probe_batches": None}
    try:
        settings = sweep_settings({**given, **shared, "method": methods, "c": c, "lr": rates}, command=command)
    except Problems as error:
        raise Problems([*own, *error.problems]) from None
    if own or (unread := given_problems()):
        raise Problems(own or unread)
    try:
        space = lr_study_space(
            methods={name: _option_keys(name) for name in methods},
            lr=rates,
            smoothings=smoothings,
            probes=probes,
            probe_batches=batches or (TrialSpec().auto_lr_probe_batches,),
            start_lr=starts,
            options=_options_by_key(given, methods, c),
        )
    except SpaceError as error:
        raise Problems(error.problems) from None
    return replace(
        settings,
        kind=LR_STUDY,
        name=settings.name.replace("pareto", LR_STUDY, 1),
        base=replace(settings.base, auto_lr="off"),
        space=space,
        trials=len(space.grid()) * settings.seeds,
    )


def default_rates(given: Mapping[str, Any], count: int = DEFAULT_RATES) -> tuple[float, ...]:
    """``count`` learning rates over the model's range and half a decade to either side, evenly in the logarithm.

    A model's range covers two decades, so these cover three; two digits each.
    """
    name = given.get("model") or ("" if given.get("model_path") or given.get("target_path") else "tiny-phi")
    low, high = (MODELS.get(name) or local_model(name)).lr_range
    first, last = math.log10(low) - 0.5, math.log10(high) + 0.5
    exponents = (first + (last - first) * index / (count - 1) for index in range(count))
    return tuple(float(f"{10**exponent:.1e}") for exponent in exponents)


def _options_by_key(
    given: Mapping[str, Any], methods: Sequence[str], c: Sequence[float]
) -> dict[str, tuple[float, ...]]:
    """The values of c and of ``--option`` under every key of that name that the methods have."""
    values = read_method_options(given["option"], [])
    if c:
        values.setdefault("c", []).extend(c)
    keys = dict.fromkeys(key for name in methods for key in _option_keys(name))
    return {key: tuple(values[plain_name(key)]) for key in keys if plain_name(key) in values}


def _option_keys(method: str) -> tuple[str, ...]:
    return tuple(f"{owner}.{option.name}" for owner, option in parse_method(method).owned_options())


def _any_has_c(methods: Sequence[str]) -> bool:
    found = False
    for name in methods:
        try:
            found = found or "c" in parse_method(name).options
        except MethodError:
            continue  # told with the other problems
    return found
