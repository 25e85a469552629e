"""The registry of all metrics, collected from the modules of this package, and the named sets of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import trainables.metrics
from search_spaces.messages import expected_one_of
from trainables.data import DataError, TaskData
from trainables.metrics.metric import RETAIN_MODEL, Metric
from trainables.registry import entries

_FIRST = (
    *("forget_loss", "retain_loss", "forget_loss_capped", "verbmem", "knowmem", "utility"),
    *("forget_repetition", "retain_repetition", "forget_longest_loop", "retain_longest_loop"),
    *("truth_ratio", "forget_truth_ratio", "forget_accuracy", "retain_accuracy", "test_accuracy"),
    *("forget_probability", "retain_probability", "forget_quality", "model_utility", "extraction_strength"),
    *("exact_memorization", "mia_loss", "mia_zlib", "mia_min_k", "mia_min_k_plus_plus", "mia_reference", "privleak"),
)
# entries() also imports this module, which does not define METRICS at that time.
_ENTRIES: Mapping[str, Metric] = entries("trainables.metrics", trainables.metrics.__path__, "METRICS", first=_FIRST)
_DISTANCES = [metric.distance() for metric in _ENTRIES.values() if metric.ideal is not None]
METRICS: Mapping[str, Metric] = MappingProxyType({**_ENTRIES} | {metric.name: metric for metric in _DISTANCES})
"""Every metric, in table order: first the metrics in ``_FIRST``, then the other metrics by name, then the distances
from ideal values.
"""

LOSS_METRICS = tuple(name for name, metric in METRICS.items() if metric.loss)
"""The metrics that are measured after every epoch."""

SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        chosen: tuple(metric.name for metric in _ENTRIES.values() if chosen in metric.sets)
        for chosen in dict.fromkeys(name for metric in _ENTRIES.values() for name in metric.sets)
    }
    | {"all": tuple(metric.name for metric in _ENTRIES.values() if not metric.loss)}
)
"""The sets of metrics by name. If the data do not allow a metric of a set, that metric is omitted."""

DEFAULT_SET = SETS["default"]


class MetricError(DataError):
    """A requested metric cannot be measured on the data; the message is for the user."""


def unknown_names(names: Sequence[str]) -> list[str]:
    """Return a message for each name that is neither a metric nor a set."""
    return [
        f"unknown metric '{name}': {expected_one_of(name, (*METRICS, *SETS))}"
        for name in names
        if name not in METRICS and name not in SETS
    ]


def chosen_metrics(names: Sequence[str], data: TaskData, *, retain_model: bool = True) -> tuple[str, ...]:
    """Return the metrics to measure on ``data``, in table order, without the losses.

    Without names, the default set is used. If the data do not allow a metric that was requested only as part of a set,
    the metric is omitted. ``retain_model`` is whether a retain model exists or can be trained.

    Raises:
        MetricError: the data do not allow a metric that was requested by name, or they allow no metric of a requested
            set. The message lists all such names.
    """
    missing = {
        name: lacking for name, metric in METRICS.items() if (lacking := metric.lacks(data, retain_model=retain_model))
    }
    wrong = [f"{name} needs {missing[name]}" for name in names if name in missing]
    wrong += [
        f"no metric of the set {name} can be measured, because {missing[SETS[name][0]]} is missing"
        for name in names
        if name in SETS and SETS[name] and {*SETS[name]} <= missing.keys()
    ]
    if wrong:
        can = ", ".join(name for name in METRICS if name not in missing)
        raise MetricError(
            f"some requested metrics cannot be measured on the data set {data.name}: {'; '.join(wrong)}; metrics that "
            f"can be measured: {can}"
        )
    wanted = {name for chosen in names or ("default",) for name in SETS.get(chosen, (chosen,))} - missing.keys()
    return tuple(name for name, metric in METRICS.items() if name in wanted and not metric.loss)


def needs_retain_model(names: Sequence[str]) -> bool:
    """Return whether any of the metrics needs a retain model, which is trained without the forget set."""
    return any(RETAIN_MODEL in METRICS[name].needs for name in names)


def primary_metrics(modality: str) -> tuple[str, ...]:
    """Return the forget metric and the retain metric that are shown first after the losses."""
    return tuple(name for name, metric in METRICS.items() if metric.primary and modality in metric.modalities)
