"""All metrics by name, collected from the modules of this package, and the sets of them that have a name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import trainables.metrics
from trainables.metrics.metric import RETAIN_MODEL, Metric

_FIRST = (
    *("losses", "rouge", "truth_ratio", "accuracy", "probability", "forget_quality", "model_utility", "memorization"),
    *("membership", "privleak"),
)
"""The modules whose columns come first in a table; any others follow by their names."""


def _collected() -> tuple[Metric, ...]:
    found = {module.name for module in pkgutil.iter_modules(trainables.metrics.__path__)} - {"registry"}
    modules = [importlib.import_module(f"trainables.metrics.{name}") for name in (*_FIRST, *sorted(found - {*_FIRST}))]
    entries = tuple(metric for module in modules for metric in getattr(module, "METRICS", ()))
    names = [metric.name for metric in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two metrics have one name: {', '.join(twice)}; rename one of them")
    return entries


_ENTRIES = _collected()
METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (*_ENTRIES, *(metric.distance() for metric in _ENTRIES if metric.ideal is not None))
    }
)
"""Every metric, in the order of the tables: as the modules come, then the distances from ideal values."""

LOSS_METRICS = tuple(name for name, metric in METRICS.items() if metric.loss)
"""Measured after every epoch, whatever is chosen."""

SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        chosen: tuple(metric.name for metric in _ENTRIES if chosen in metric.sets)
        for chosen in dict.fromkeys(name for metric in _ENTRIES for name in metric.sets)
    }
    | {"all": tuple(metric.name for metric in _ENTRIES if not metric.loss)}
)
"""Names that stand for several metrics; of a set, what the data cannot give is left out."""

DEFAULT_SET = SETS["default"]


def unknown_names(names: Sequence[str]) -> list[str]:
    """A plain sentence for each name that is neither a metric nor a set."""
    return [
        f"unknown metric '{name}': expected one of {', '.join(METRICS)}; or a set: {', '.join(SETS)}"
        for name in names
        if name not in METRICS and name not in SETS
    ]


def needs_retain_model(names: Sequence[str]) -> bool:
    """Whether one of the metrics compares with a model trained without the forget set."""
    return any(RETAIN_MODEL in METRICS[name].needs for name in names)


def primary_metrics(modality: str) -> tuple[str, ...]:
    """The metrics shown first, beside the losses: one of the forget set and one of the retain set."""
    return tuple(name for name, metric in METRICS.items() if metric.primary and modality in metric.modalities)
