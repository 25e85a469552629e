"""The settings of a learning-rate study: a finite grid that contains the AutoLR arms and the fixed learning rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from search_spaces.builtin import lr_study_space
from search_spaces.space import SpaceError
from sweeper.settings.fields import ARMS, PARETO
from sweeper.settings.sources import Options
from sweeper.settings.spaces import methods_and_values
from sweeper.settings.sweep_settings import LAST, LR_STUDY, SEEDS_VARY
from sweeper.settings.sweeps import Catalog, Resolved, methods_of, resolve_sweep
from trainables.data import DATASETS
from trainables.methods import MethodError, options_by_method
from trainables.models.registry import MODELS, local_model
from trainables.spec import FIELDS, TrialSpec

DEFAULT_C = (0.5, 0.9, 0.99)
DEFAULT_RATES = 5


def resolve_study(options: Options, catalog: Catalog) -> Resolved:
    """Resolve the options of a learning-rate study to a grid with the AutoLR arms and the fixed learning rates."""
    methods = methods_of(options)
    c = options["c"] or (DEFAULT_C if _any_has_c(methods) else ())
    rates = options["lr"] or default_rates(options)
    arms = {name: list(options[name]) or [FIELDS[name].default] for name in ARMS}
    batches = options["auto_lr_probe_batches"]
    if batches and "fresh" not in arms["auto_lr_probe"]:
        options.reject("batches-not-fresh", "auto_lr_probe_batches", probes=", ".join(arms["auto_lr_probe"]))
    starts = options["auto_lr_start_lr"]
    # The paper's grid is finite for all methods, so the other options can be checked like those of a sweep.
    options.values |= {"space": "paper", "sampler": "grid", "auto_lr": "both", "method": methods, "c": c, "lr": rates}
    resolved = resolve_sweep(options, catalog)
    base = resolved.base
    if not batches:
        arms["auto_lr_probe_batches"] = [base.auto_lr_probe_batches]
    _check_seeds(options, base)
    if not options.problems:
        _check_primary(options, methods, arms)
    if options.problems or resolved.settings is None:
        return resolved
    owned, values = methods_and_values(methods, resolved.options)
    try:
        space = lr_study_space(
            methods=owned,
            lr=rates,
            arms=[(FIELDS[name], given) for name, given in arms.items()],
            start_lr=starts,
            options=values,
        )
    except SpaceError as error:
        options.extend(error.problems)
        return resolved
    resolved.settings = replace(
        resolved.settings,
        kind=LR_STUDY,
        candidates=LAST,  # the study compares frontiers of arms with equal budgets
        name=resolved.settings.name.replace(PARETO, LR_STUDY, 1),
        base=replace(resolved.settings.base, auto_lr="off"),
        space=space,
        trials=len(space.grid()) * resolved.settings.seeds,
    )
    return resolved


def _check_seeds(options: Options, base: TrialSpec) -> None:
    varied = options["seeds_vary"]
    if varied not in SEEDS_VARY:
        options.reject("seeds-vary-unknown", "seeds_vary", varied=varied, expected=", ".join(SEEDS_VARY))
    elif SEEDS_VARY[varied] is not None and base.target_path is not None:
        options.reject("seeds-vary-target", "seeds_vary", varied=varied)
    elif varied == "data" and base.dataset in DATASETS and not DATASETS[base.dataset].generated:
        options.reject("seeds-vary-data", "seeds_vary", dataset=base.dataset)


def _check_primary(options: Options, methods: Sequence[str], arms: Mapping[str, Sequence[Any]]) -> None:
    """Reject a ``--primary`` that does not name exactly one comparison of the study."""
    primary = options["primary"]
    if primary is None:
        return
    method, _, variant = primary.strip().partition("/")
    variants = list(dict.fromkeys(arm_names(arms)))
    questions = " or ".join(f"{method}/{name}" for name in variants)
    if method not in methods:
        options.reject("primary-method", "primary", primary=primary, methods=", ".join(methods))
    elif not variant and len(variants) > 1:
        options.reject("primary-several", "primary", primary=primary, count=len(variants), questions=questions)
    elif variant and variant not in variants:
        options.reject("primary-variant", "primary", primary=primary, questions=questions)


def arm_names(arms: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the names of AutoLR's variants as used in tables and docs, for example ``search/freshx4``."""
    return [
        f"{rule}/{probe}" + (f"x{batches}" if probe == "fresh" and batches > 1 else "")
        for rule, probe, batches in itertools.product(*(arms[name] for name in ARMS))
    ]


def default_rates(options: Options) -> tuple[float, ...]:
    """Return five learning rates, evenly spaced on a log scale, rounded to two digits.

    The rates cover three decades: the model's range, which is two decades, and half a decade beyond each end.
    """
    is_local = options.asked("model_path") or options.asked("target_path")
    name = options.asked("model") or ("" if is_local else "tiny-phi")
    low, high = (MODELS.get(name) or local_model(name)).lr_range
    first, last = math.log10(low) - 0.5, math.log10(high) + 0.5
    exponents = (first + (last - first) * index / (DEFAULT_RATES - 1) for index in range(DEFAULT_RATES))
    return tuple(float(f"{10**exponent:.1e}") for exponent in exponents)


def _any_has_c(methods: Sequence[str]) -> bool:
    try:
        return any(item.name == "c" for own in options_by_method(methods).values() for item in own.values())
    except MethodError:
        return False  # reported with the other problems
