"""The options and the grid of a learning-rate study, which compares fixed learning rates and variants of AutoLR."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from search_spaces.builtin import lr_study_space
from search_spaces.common.messages import counted, expected_one_of
from search_spaces.constraint import Constraint, ConstraintError
from search_spaces.space import Space, SpaceError
from sweeper.settings.objectives import parse_metric_constraint
from sweeper.settings.options import StudyOptions
from sweeper.settings.reading import Problem, about, method_options
from sweeper.settings.spaces import searched_settings, values_by_key
from sweeper.settings.sweep_settings import SEEDS_VARY
from trainables.data import DATASETS
from trainables.methods import MethodError, options_by_method
from trainables.metrics.registry import METRICS, metrics_in, primary_metrics, unknown_names
from trainables.modality import dataset_modality
from trainables.models.registry import MODELS, local_model
from trainables.spec import TrialSpec

_DEFAULT_C = (0.9,)
_DEFAULT_RATE_COUNT = 5


def with_study_defaults(options: StudyOptions) -> StudyOptions:
    """Return the options with the default rule, learning rates and values of c of a study.

    A study always has fixed rates, so ``off`` is the first value of ``auto_lr``.
    """
    c = options.c or (_DEFAULT_C if _any_has_c(options.method) else ())
    rules = [rule for rule in options.auto_lr or ("gen",) if rule != "off"]
    return replace(options, c=c, lr=options.lr or _default_rates(options), auto_lr=("off", *rules))


def study_problems(options: StudyOptions, base: TrialSpec, *, is_valid: bool) -> list[Problem]:
    """Return the problems with the options of a learning-rate study.

    ``--primary`` is checked only if no other problem was found: here, or before (``is_valid`` is false).
    """
    problems: list[Problem] = []
    if options.auto_lr == ("off",):
        text = "--auto-lr off: a study compares fixed rates with a rule; give a rule, such as gen"
        problems += about("auto_lr", text)
    seeds_vary = options.seeds_vary
    if SEEDS_VARY[seeds_vary] is not None and base.target_path is not None:
        text = "--target-path names one finished target, so only the order of the examples can vary"
        problems += about("seeds_vary", f"--seeds-vary {seeds_vary}: {text}")
    elif seeds_vary == "data" and base.dataset in DATASETS and not DATASETS[base.dataset].generated:
        problems += about(
            "seeds_vary",
            f"--seeds-vary data: data set {base.dataset} is read from files and not generated, so its content cannot "
            "vary; vary order or target, or use --dataset authors",
        )
    variants = _arm_names(options, base)
    comparisons = [f"{method}/{variant}" for method in options.method for variant in variants]
    if len(variants) == 1:  # then the name of a method identifies its only comparison
        comparisons += options.method
    primary = options.primary
    if primary is not None and primary.strip() not in comparisons and is_valid and not problems:
        expected = expected_one_of(primary, comparisons)
        problems += about("primary", f"--primary {primary} is not a comparison of this study: {expected}")
    return problems


def study_space(options: StudyOptions, base: TrialSpec) -> Space:
    """Return the grid of the study.

    Raises:
        SpaceError: the given values do not fit the space.
    """
    methods = options_by_method(options.method)
    return lr_study_space(
        methods=methods,
        lr=options.lr,
        rules=options.auto_lr[1:],
        settings=searched_settings(options, base, options.auto_lr),
        start_lr=options.auto_lr_start_lr,
        options=values_by_key(methods, method_options(options.option, options.c)),
    )


def comparisons_of(space: Space, primary: str | None) -> int:
    """Return how many comparisons of a study are corrected together: those of the primary method, or all.

    For each rule, each method with each value of its options is compared with the fixed rates.
    """
    points = [point for point in space.grid() if point["auto_lr"] != "off"]
    method = primary.strip().partition("/")[0] if primary else ""
    settings = [tuple(item for item in point.items() if item[0] != "lr") for point in points]
    return len({item for item in settings if not method or ("method", method) in item})


def seed_problems(options: StudyOptions, base: TrialSpec) -> list[Problem]:
    """Return a problem if the study has too few seeds for any decision and is not meant to describe only.

    If another option is invalid, so that there is no grid, the study has at least one comparison.
    """
    from analysis.study.paired import least_seeds  # imports SciPy, which is slow

    try:
        comparisons = max(1, comparisons_of(study_space(options, base), options.primary))
    except (MethodError, SpaceError):
        comparisons = 1
    least = least_seeds(comparisons)
    if options.describe or options.seeds >= least:
        return []
    return about(
        "seeds",
        f"--seeds {options.seeds}: {counted(options.seeds, 'seed')} cannot decide any of "
        f"{counted(comparisons, 'comparison')}, whatever comes out: give at least --seeds {least}, or --describe to "
        "run the study without a decision",
    )


def forgetting_problems(options: StudyOptions, base: TrialSpec) -> list[Problem]:
    """Return a problem if the trials do not measure whether a model forgot, unless the study is to describe only.

    The thresholds are those of :func:`analysis.study.endpoints.thresholds_of`: a threshold that the user states for the
    forget set replaces that of the paper. Stated thresholds on metrics that are not measured are another problem.
    """
    if options.describe or unknown_names(base.metrics):
        return []
    limits = [_constraint(text) for text in options.constraints]
    stated = [item for item in limits if item is None or METRICS[item.name].of == "forget"]
    if any(item is None or _is_on_forgetting(item) for item in stated):
        return []
    metrics = [METRICS[name] for name in primary_metrics(dataset_modality(base.dataset).name)]
    primaries = [item for item in metrics if item.of == "forget"]
    names_of_paper = [item.name for item in primaries if item.threshold is not None and not stated]
    unmeasured = [name for name in names_of_paper if name not in metrics_in(base.metrics)]
    why = "a study compares how much the models keep, which says nothing about a rule unless the models forgot"
    otherwise = ", or --describe to run the study without a decision"
    if unmeasured:
        text = f"--metrics {','.join(base.metrics)}: {why}, so {' and '.join(unmeasured)} must be measured"
        return about("metrics", f"{text}: give --metrics {','.join((*base.metrics, *unmeasured))}{otherwise}")
    if names_of_paper:
        return []
    flags = " ".join(f"--constraint {item}" for item in stated) or f"--dataset {base.dataset}"
    example = f"{primaries[0].name}<=0.1" if primaries else "METRIC<=VALUE"
    text = f"{flags}: {why}, but no threshold on forgetting applies"
    return about("constraint", f"{text}: state one, such as --constraint '{example}'{otherwise}")


def _constraint(text: str) -> Constraint | None:
    """Return a threshold; None if it is invalid, which is another problem."""
    try:
        return parse_metric_constraint(text)
    except ConstraintError:
        return None


def _is_on_forgetting(limit: Constraint) -> bool:
    """Return whether a threshold on a metric of the forget set requires forgetting, and not only a form of answers."""
    metric = METRICS[limit.name]
    wants_more = limit.sign.startswith(">")
    return not metric.is_form and metric.direction == ("max" if wants_more else "min")


def _arm_names(options: StudyOptions, base: TrialSpec) -> list[str]:
    """Return the names of the variants of AutoLR, for example ``gen/same`` or ``curvature/freshx2``."""
    probes, batches = options.auto_lr_probe or (None,), options.auto_lr_probe_batches or (None,)
    names = []
    for rule, probe, batch_count in itertools.product(options.auto_lr[1:], probes, batches):
        spec = replace(base, auto_lr=rule, auto_lr_probe=probe, auto_lr_probe_batches=batch_count)
        suffix = f"x{spec.auto_lr_probe_batches}" if spec.auto_lr_probe == "fresh" else ""
        names.append(f"{spec.auto_lr}/{spec.auto_lr_probe}{suffix}")
    return list(dict.fromkeys(names))


def _default_rates(options: StudyOptions) -> tuple[float, ...]:
    """Return log-spaced rates, from half a decade below the model's range to half a decade above the range."""
    is_local = options.model_path or options.target_path
    name = options.model or ("" if is_local else "tiny-phi")
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
