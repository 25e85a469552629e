"""The data sets by name. A new one is a file with its record, and the record's name in the table below."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trainables.data.authors import AUTHORS
from trainables.data.cifar import CIFAR_10, CIFAR_100
from trainables.data.dataset import DataSet, ProblemData
from trainables.data.digits import DIGITS
from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData
from trainables.data.jsonl import JSONL
from trainables.data.muse import MUSE_BOOKS, MUSE_NEWS
from trainables.data.tofu import TOFU

DATASETS: Mapping[str, DataSet] = MappingProxyType(
    {item.name: item for item in (AUTHORS, TOFU, DIGITS, CIFAR_10, CIFAR_100, MUSE_NEWS, MUSE_BOOKS, JSONL)}
)


def load_data(name: str, **choices: Any) -> ProblemData:
    """:meth:`DataSet.load` of the data set called ``name``, with what is chosen of it.

    Raises:
        DataError: there is none, or it cannot be loaded so.
    """
    if name not in DATASETS:
        raise DataError(f"unknown dataset '{name}': expected one of {', '.join(DATASETS)}")
    return DATASETS[name].load(**choices)


__all__ = ["DATASETS", "DataError", "DataSet", "Example", "ProblemData", "UnlearningData", "load_data"]
