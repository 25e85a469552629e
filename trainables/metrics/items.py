"""Per-item values as float64 arrays. numpy is imported inside functions, because ``--help`` imports this module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = "NDArray[np.float64]"


def column(values: ArrayLike) -> Array:
    """Return one number per item: float64 ``(n,)``."""
    import numpy as np

    return np.asarray(values, dtype=np.float64)


def rows(values: Sequence[ArrayLike] | NDArray[np.floating]) -> list[Array]:
    """Return one row of numbers per item: float64 ``(k_i,)``. Rows may differ in length."""
    return [column(row) for row in values]
