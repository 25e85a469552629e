"""From the options of ``lr-study`` to a sweep's settings over a finite grid; raises all problems together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from search_spaces.builtin import lr_study_space
from search_spaces.space import SpaceError
from sweeper.cli.errors import Problems
from sweeper.cli.from_options import DEFAULT_METHODS, sweep_settings
from sweeper.cli.options import given_problems, read_method_options
from sweeper.cli.spaces import methods_and_values
from sweeper.settings.sweep_settings import LAST, LR_STUDY, SEEDS_VARY, SweepSettings
from trainables.data import DATASETS
from trainables.methods import MethodError, options_by_method
from trainables.models.registry import MODELS, local_model
from trainables.spec import FIELDS, TrialSpec

DEFAULT_C = (0.5, 0.9, 0.99)
DEFAULT_RATES = 5
ARMS = ("auto_lr_smoothing", "auto_lr_probe", "auto_lr_probe_batches")
"""The settings of AutoLR of which each value is an arm of its own."""


def lr_study_settings(given: Mapping[str, Any], *, command: str) -> SweepSettings:
    """The settings of a learning-rate study: a grid sweep with AutoLR's arms beside the fixed learning rates.

    Raises:
        Problems: everything that is wrong with the options, the model, the data and the tracking store.
    """
    methods = tuple(dict.fromkeys(given["method"])) or DEFAULT_METHODS
    c = tuple(given["c"]) or (DEFAULT_C if _any_has_c(methods) else ())
    rates = tuple(given["lr"]) or default_rates(given)
    starts = [rate for rate in given["auto_lr_start_lr"] if rate is not None]
    arms = {name: [value for value in given[name] if value is not None] or [FIELDS[name].default] for name in ARMS}
    own = [problem for name in ARMS for value in arms[name] if (problem := FIELDS[name].problem(value))]
    if given["auto_lr_probe_batches"] and "fresh" not in arms["auto_lr_probe"]:
        own.append(f"auto_lr_probe_batches applies to auto_lr_probe fresh only, got {', '.join(arms['auto_lr_probe'])}")
    start = replace(FIELDS["lr"], name="auto-lr-start-lr", flag="")
    own += [problem for rate in starts if (problem := start.problem(rate))]
    # The paper's grid is finite whatever the methods, so that everything else is checked as pareto checks it.
    shared: dict[str, Any] = {"space": "paper", "sampler": "grid", "trials": None, "auto_lr": "both"}
    shared |= dict.fromkeys(ARMS)
    try:
        settings = sweep_settings({**given, **shared, "method": methods, "c": c, "lr": rates}, command=command)
    except Problems as error:
        raise Problems([*own, *error.problems]) from None
    if not given["auto_lr_probe_batches"]:
        arms["auto_lr_probe_batches"] = [settings.base.auto_lr_probe_batches]
    own += _seeds_problems(given["seeds_vary"], settings.base)
    own += _primary_problems(given["primary"], methods, arms)
    if own or (unread := given_problems()):
        raise Problems(own or unread)
    owned, options = methods_and_values(methods, read_method_options({**given, "c": c}, []))
    try:
        space = lr_study_space(
            methods=owned,
            lr=rates,
            arms=[(FIELDS[name], values) for name, values in arms.items()],
            start_lr=starts,
            options=options,
        )
    except SpaceError as error:
        raise Problems(error.problems) from None
    return replace(
        settings,
        kind=LR_STUDY,
        candidates=LAST,  # the fronts of arms of equal budgets are compared
        name=settings.name.replace("pareto", LR_STUDY, 1),
        base=replace(settings.base, auto_lr="off"),
        space=space,
        seeds_vary=given["seeds_vary"],
        primary=given["primary"],
        extend=given["extend"],
        trials=len(space.grid()) * settings.seeds,
    )


def _seeds_problems(varied: str, base: TrialSpec) -> list[str]:
    """Why the seeds cannot vary that."""
    if varied not in SEEDS_VARY:
        return [f"--seeds-vary must be one of {', '.join(SEEDS_VARY)}, got '{varied}'"]
    if SEEDS_VARY[varied] is None:
        return []
    if base.target_path is not None:
        return [f"--seeds-vary {varied}: with --target-path there is one finished target, so only the order can vary"]
    if varied == "data" and not DATASETS[base.dataset].generated:
        return [
            f"--seeds-vary data: data set {base.dataset} is read and not generated, so there is one of it; vary order "
            "or target, or take --dataset authors"
        ]
    return []


def _primary_problems(primary: str | None, methods: Sequence[str], arms: Mapping[str, Sequence[Any]]) -> list[str]:
    """Why the study has no such question, or several."""
    if primary is None:
        return []
    method, _, variant = primary.strip().partition("/")
    if method not in methods:
        return [f"--primary {primary}: expected one of the methods of this study, {', '.join(methods)}"]
    variants = list(dict.fromkeys(arm_names(arms)))
    questions = " or ".join(f"{method}/{name}" for name in variants)
    if not variant and len(variants) > 1:
        return [f"--primary {primary}: this names {len(variants)} questions, and a primary one is one: {questions}"]
    if variant and variant not in variants:
        return [f"--primary {primary}: this study has no such variant of AutoLR: expected {questions}"]
    return []


def arm_names(arms: Mapping[str, Sequence[Any]]) -> list[str]:
    """AutoLR's variants as tables and docs call them: ``search/freshx4``, ``paper/same``."""
    return [
        f"{rule}/{probe}" + (f"x{batches}" if probe == "fresh" and batches > 1 else "")
        for rule, probe, batches in itertools.product(*(arms[name] for name in ARMS))
    ]


def default_rates(given: Mapping[str, Any], count: int = DEFAULT_RATES) -> tuple[float, ...]:
    """``count`` learning rates over the model's range and half a decade to either side, evenly in the logarithm.

    A model's range covers two decades, so these cover three; two digits each.
    """
    name = given.get("model") or ("" if given.get("model_path") or given.get("target_path") else "tiny-phi")
    low, high = (MODELS.get(name) or local_model(name)).lr_range
    first, last = math.log10(low) - 0.5, math.log10(high) + 0.5
    exponents = (first + (last - first) * index / (count - 1) for index in range(count))
    return tuple(float(f"{10**exponent:.1e}") for exponent in exponents)


def _any_has_c(methods: Sequence[str]) -> bool:
    try:
        return any(item.name == "c" for own in options_by_method(methods).values() for item in own.values())
    except MethodError:
        return False  # told with the other problems
