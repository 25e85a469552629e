"""Which metrics are measured on a problem: those asked for by name, and of sets of them what the data can give."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.data import DataError, ProblemData
from trainables.metrics.registry import METRICS, SETS


class MetricError(DataError):
    """A metric was asked for that the data cannot give; the message is a plain sentence for the user."""


def metrics_of(names: Sequence[str], data: ProblemData, *, retain_model: bool = True) -> tuple[str, ...]:
    """The metrics to measure on ``data``, in the order of the table, without the losses; no names: the default set.

    Sets of metrics leave out what the data lack; ``retain_model``: whether there is or can be one.

    Raises:
        MetricError: metrics asked for by name cannot be had; all of them are told.
    """
    missing = {
        name: lacking for name, metric in METRICS.items() if (lacking := metric.lacks(data, retain_model=retain_model))
    }
    wrong = [f"{name} needs {missing[name]}" for name in names if name in missing]
    wrong += [
        f"nothing of {name} can be measured: {missing[SETS[name][0]]} is needed"
        for name in names
        if name in SETS and SETS[name] and {*SETS[name]} <= missing.keys()
    ]
    if wrong:
        can = ", ".join(name for name in METRICS if name not in missing)
        raise MetricError(
            f"the data set {data.name} cannot give every metric asked for: {'; '.join(wrong)}; it gives {can}"
        )
    wanted = {name for chosen in names or ("default",) for name in SETS.get(chosen, (chosen,))} - missing.keys()
    return tuple(name for name, metric in METRICS.items() if name in wanted and not metric.loss)
