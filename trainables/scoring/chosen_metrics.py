"""Choose the metrics to measure: metrics requested by name, and the metrics of requested sets that the data allow."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.data import DataError, TaskData
from trainables.metrics.registry import METRICS, SETS


class MetricError(DataError):
    """A requested metric cannot be measured on the data; the message is for the user."""


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
