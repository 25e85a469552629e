"""The data sets by name."""

from __future__ import annotations

from pathlib import Path

from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData, keep_retain

DATASETS = {
    "authors": "200 questions about 20 fictitious authors, generated; the forget set is the last two authors",
    "tofu": "TOFU (locuslab/TOFU): 4,000 questions about 200 fictitious authors; forget01, forget05 or forget10",
}
FORGET_SPLITS = {"authors": (), "tofu": ("forget01", "forget05", "forget10")}
NEEDS_HUB = {"tofu": "locuslab/TOFU"}


def load_data(
    name: str, *, forget_split: str | None = None, data_dir: Path | None = None, limit: int | None = None
) -> UnlearningData:
    """The data set called ``name``; see the modules of this package for what the arguments mean there.

    Raises:
        DataError: a file is missing or malformed, or the hub cannot be reached.
    """
    if name == "tofu":
        from trainables.data.tofu import load_tofu

        return load_tofu(forget_split=forget_split or "forget10", data_dir=data_dir, limit=limit)
    from trainables.data.authors import authors

    return keep_retain(authors(), limit, per_author=10)


__all__ = ["DATASETS", "FORGET_SPLITS", "NEEDS_HUB", "DataError", "Example", "UnlearningData", "load_data"]
