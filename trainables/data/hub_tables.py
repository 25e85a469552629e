"""Read the tables of a data set from the Hugging Face hub."""

from __future__ import annotations

from typing import Any

from trainables.data.errors import DataError
from trainables.data.files import Row


def hub_rows(repository: str, name: str, *, split: str = "train") -> list[Row]:
    """Return the rows of the configuration ``name`` and ``split``. Raises DataError like :func:`load_hub`."""
    table = name if split == "train" else f"{name}/{split}"
    rows = load_hub(repository, name, split=split, table=f" ({table})", instead="authors")
    return [Row(f"{repository}/{table}, row {number}", row) for number, row in enumerate(rows, start=1)]


def load_hub(repository: str, *name: str, instead: str, table: str = "", **choices: str) -> Any:
    """Load a repository with the ``datasets`` library and its cache.

    Raises:
        DataError: the repository cannot be loaded. The message names ``--data-dir`` and the data set ``instead``.
    """
    from datasets import load_dataset

    try:
        return load_dataset(repository, *name, **choices)
    except Exception as error:
        raise DataError(
            f"cannot load {repository}{table} from the hub: {str(error).splitlines()[0][:200]}; "
            f"give its files with --data-dir DIR, or use --dataset {instead}"
        ) from error
