"""Rows of a data set's table on the Hugging Face hub."""

from __future__ import annotations

from trainables.data.errors import DataError
from trainables.data.files import Row


def hub_rows(repository: str, name: str, *, split: str = "train") -> list[Row]:
    """The rows of one configuration ``name`` and ``split``, through the ``datasets`` library and its cache.

    Raises:
        DataError: they cannot be had; names the ways on.
    """
    from datasets import load_dataset

    table = name if split == "train" else f"{name}/{split}"
    try:
        rows = load_dataset(repository, name, split=split)
    except Exception as error:
        raise DataError(
            f"cannot load {repository} ({table}) from the hub: {str(error).splitlines()[0][:200]}; "
            "give its files with --data-dir DIR, or use --dataset authors"
        ) from error
    return [Row(f"{repository}/{table}, row {number}", row) for number, row in enumerate(rows, start=1)]
