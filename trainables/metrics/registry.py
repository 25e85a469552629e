"""The registry of metrics, and the named sets of metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

import trainables.metrics
from search_spaces.common.messages import did_you_mean
from trainables.metrics.metric import RETAIN_MODEL, Metric
from trainables.registry import entries

if TYPE_CHECKING:
    from trainables.attacks.attack import Attack

_FIRST = (
    "forget_loss", "retain_loss", "forget_loss_capped", "verbmem", "knowmem", "utility",
    "forget_fact_recall", "retain_fact_recall",
    "forget_fact_recall_rephrased", "retain_fact_recall_rephrased", "neighbour_fact_recall",
    "retain_kl", "forget_answer_loss", "forget_fluent", "forget_refusals", "forget_loops",
    "forget_repetition", "retain_repetition", "forget_longest_loop", "retain_longest_loop",
    "truth_ratio", "forget_truth_ratio", "forget_accuracy", "retain_accuracy", "test_accuracy",
    "forget_probability", "retain_probability", "forget_quality", "model_utility", "extraction_strength",
    "exact_memorization", "leak_probability", "target_distance", "nf4_changed",
    "mia_loss", "mia_zlib", "mia_min_k", "mia_min_k_plus_plus", "mia_reference", "privleak",
)  # fmt: skip
# entries() also imports this module. METRICS is not yet defined then, so this module adds no entries.
_ENTRIES: Mapping[str, Metric] = entries("trainables.metrics", trainables.metrics.__path__, "METRICS", first=_FIRST)
_DISTANCES = [metric.distance() for metric in _ENTRIES.values() if metric.ideal is not None]
# Imported by name, because attacks use metrics.
_attack_registry = import_module("trainables.attacks.registry")
_ATTACKS: Mapping[str, Attack] = _attack_registry.ATTACKS
_ATTACKED = {name: attack.metrics_from(_ENTRIES) for name, attack in _ATTACKS.items()}
_FURTHER = [*_DISTANCES, *(metric for metrics in _ATTACKED.values() for metric in metrics)]
METRICS: Mapping[str, Metric] = MappingProxyType(dict(_ENTRIES) | {metric.name: metric for metric in _FURTHER})
"""All metrics, in the order of the tables. Distances from an ideal value and the metrics of attacks come last."""

LOSS_METRICS = tuple(name for name, metric in METRICS.items() if metric.loss)
"""The names of the losses, which are measured at each evaluation of a run."""


def _names_by_set() -> dict[str, tuple[str, ...]]:
    metrics = _ENTRIES.values()
    set_names = [set_name for metric in metrics for set_name in metric.sets]
    result = {}
    for set_name in dict.fromkeys(set_names):
        result[set_name] = tuple(metric.name for metric in metrics if set_name in metric.sets)
    result["all"] = tuple(metric.name for metric in metrics if not metric.loss and not metric.after_search)
    attacked = {name: tuple(metric.name for metric in metrics) for name, metrics in _ATTACKED.items()}
    # An attack does not replace a set. If a plug-in's attack has the name of a set, the name is refused.
    for set_name, attacks in _attack_registry.attack_sets().items():
        if attacks:
            result[f"{_attack_registry.SET}{set_name}"] = tuple(name for attack in attacks for name in attacked[attack])
    return attacked | result


SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(_names_by_set())
"""The names of the metrics in each set. The metrics of an attack are the set with the attack's name."""

DEFAULT_SET = SETS["default"]


def metrics_in(names: Iterable[str]) -> set[str]:
    """Return the metrics in ``names``, which contain metrics and sets of metrics; the default set without names."""
    return {metric for name in tuple(names) or ("default",) for metric in SETS.get(name, (name,))}


def expected_metric(unknown_name: str, choices: Collection[str]) -> str:
    """Return a hint for an unknown metric. It names a command, because a list of all metrics fills the screen."""
    suggestion = did_you_mean(unknown_name, choices)
    return f"{suggestion + ' ' if suggestion else ''}expected a metric that 'python -m sweeper list metrics' prints"


def unknown_names(names: Sequence[str]) -> list[str]:
    """Return a message for each name that is neither a metric nor a set of metrics."""
    return [
        f"unknown metric '{name}': {expected_metric(name, (*METRICS, *SETS))}, or one of the sets {', '.join(SETS)}"
        for name in names
        if name not in METRICS and name not in SETS
    ]


def needs_retain_model(names: Sequence[str]) -> bool:
    return any(RETAIN_MODEL in METRICS[name].needs for name in names)


def primary_metrics(modality: str) -> tuple[str, ...]:
    """Return the names of the metrics that the display and the report show beside the losses."""
    return tuple(name for name, metric in METRICS.items() if metric.primary and modality in metric.modalities)
