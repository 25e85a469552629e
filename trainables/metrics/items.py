"""Convert per-item values to float64 arrays, and check their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = "NDArray[np.float64]"


def column(values: ArrayLike, what: str) -> Array:
    """Return one number per item: float64 ``(n,)``, n >= 1. Otherwise raise ValueError; ``what`` names the values."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{what}: expected one number for each of at least one item, got shape {array.shape}")
    return array


def rows(values: Sequence[ArrayLike] | NDArray[np.floating], what: str, *, items: int | None = None) -> list[Array]:
    """Return one row of numbers per item: float64 ``(k_i,)``, k_i >= 1. Rows may differ in length.

    Raises ValueError if a row is empty, if there are no items, or if their number is not ``items``.
    """
    import numpy as np

    found = [np.asarray(row, dtype=np.float64) for row in values]
    if not found or (items is not None and len(found) != items):
        raise ValueError(f"{what}: expected {'at least 1' if items is None else items} items, got {len(found)}")
    for index, row in enumerate(found):
        if row.ndim != 1 or row.size == 0:
            raise ValueError(f"{what} of item {index}: expected at least one number, got shape {row.shape}")
    return found
