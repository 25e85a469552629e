"""The registry of data sets. To add a data set, add a module with ``DATASETS = DataSet(...)`` to this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces.common.messages import expected_one_of
from trainables.data.dataset import DataSet, TaskData
from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData
from trainables.registry import entries

_FIRST = ("authors", "tofu", "digits", "cifar-10", "cifar-100", "muse-news", "muse-books", "jsonl")
DATASETS: Mapping[str, DataSet] = entries(__name__, __path__, "DATASETS", first=_FIRST)


def load_data(name: str, **choices: Any) -> TaskData:
    """Load the data set ``name``. ``choices`` are the arguments of :meth:`DataSet.load`.

    Raises:
        DataError: the name is unknown, or the data cannot be loaded.
    """
    if name not in DATASETS:
        raise DataError(f"unknown dataset '{name}': {expected_one_of(name, DATASETS)}")
    return DATASETS[name].load(**choices)


__all__ = ["DATASETS", "DataError", "DataSet", "Example", "TaskData", "UnlearningData", "load_data"]
