"""The options and the grid of a learning-rate study, which compares fixed learning rates and variants of AutoLR."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from search_spaces.builtin import lr_study_space
from search_spaces.common.messages import expected_one_of
from search_spaces.space import Space, SpaceError
from sweeper.settings.names import ARMS
from sweeper.settings.sources import Options
from sweeper.settings.spaces import values_by_key
from sweeper.settings.sweep_settings import SEEDS_VARY
from trainables.data import DATASETS
from trainables.methods import MethodError, options_by_method
from trainables.models.registry import MODELS, local_model
from trainables.spec import FIELDS, TrialSpec

_DEFAULT_C = (0.5, 0.9, 0.99)
_DEFAULT_RATE_COUNT = 5


def study_values(options: Options, methods: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``sampler``, ``auto_lr``, ``c`` and ``lr``, with the defaults of a learning-rate study."""
    c = options["c"] or (_DEFAULT_C if _any_has_c(methods) else ())
    return {"sampler": "grid", "auto_lr": "both", "c": c, "lr": options["lr"] or _default_rates(options)}


def check_study(options: Options, base: TrialSpec) -> None:
    """Check the options of a learning-rate study, and add the problems to ``options``."""
    probes = options["auto_lr_probe"]
    if options["auto_lr_probe_batches"] and "fresh" not in (probes or (base.auto_lr_probe,)):
        got = ", ".join(probes)
        text = f"--auto-lr-probe-batches applies only to --auto-lr-probe fresh, got {got}"
        options.add(text, "auto_lr_probe_batches")
    seeds_vary = options["seeds_vary"]
    if SEEDS_VARY[seeds_vary] is not None and base.target_path is not None:
        options.add(
            f"--seeds-vary {seeds_vary}: --target-path names one finished target, so only the order of the examples "
            "can vary",
            "seeds_vary",
        )
    elif seeds_vary == "data" and base.dataset in DATASETS and not DATASETS[base.dataset].generated:
        options.add(
            f"--seeds-vary data: data set {base.dataset} is read from files and not generated, so its content cannot "
            "vary; vary order or target, or use --dataset authors",
            "seeds_vary",
        )
    primary = options["primary"]
    variants = _arm_names(_arms(options, base))
    comparisons = [f"{method}/{variant}" for method in options["method"] for variant in variants]
    if len(variants) == 1:  # then the name of a method identifies its only comparison
        comparisons += options["method"]
    is_unknown = primary is not None and primary.strip() not in comparisons
    if is_unknown and not options.problems:
        expected = expected_one_of(primary, comparisons)
        options.add(f"--primary {primary} is not a comparison of this study: {expected}", "primary")


def study_space(options: Options, base: TrialSpec) -> Space | None:
    """Return the grid of the study, or None if a problem prevents building it."""
    if options.problems:
        return None
    methods = options_by_method(options["method"])
    try:
        return lr_study_space(
            methods=methods,
            lr=options["lr"],
            arms=[(FIELDS[name], values) for name, values in _arms(options, base).items()],
            start_lr=options["auto_lr_start_lr"],
            options=values_by_key(methods, options.method_options),
        )
    except SpaceError as error:
        options.extend(error.problems)
        return None


def _arms(options: Options, base: TrialSpec) -> dict[str, Sequence[Any]]:
    """Return the values that the study compares for each AutoLR setting in :data:`ARMS`."""
    return {name: options[name] or (getattr(base, name),) for name in ARMS}


def _arm_names(arms: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the names of the variants of AutoLR, for example ``clip/freshx4``."""
    names = []
    for rule, probe, batches in itertools.product(*(arms[name] for name in ARMS)):
        suffix = f"x{batches}" if probe == "fresh" and batches > 1 else ""
        names.append(f"{rule}/{probe}{suffix}")
    return list(dict.fromkeys(names))


def _default_rates(options: Options) -> tuple[float, ...]:
    """Return log-spaced rates, from half a decade below the model's range to half a decade above the range."""
    is_local = options.explicit("model_path") or options.explicit("target_path")
    name = options.explicit("model") or ("" if is_local else "tiny-phi")
    low, high = (MODELS.get(name) or local_model(name)).lr_range
    first = math.log10(low) - 0.5
    last = math.log10(high) + 0.5
    exponents = (first + (last - first) * index / (_DEFAULT_RATE_COUNT - 1) for index in range(_DEFAULT_RATE_COUNT))
    return tuple(float(f"{10**exponent:.1e}") for exponent in exponents)


def _any_has_c(methods: Sequence[str]) -> bool:
    try:
        return any(item.name == "c" for fields in options_by_method(methods).values() for item in fields.values())
    except MethodError:
        return False  # spec_problems reports the invalid method
