"""Tables of learning-rate studies whose correct verdict is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tests.analysis.conftest import MakeRow, Row

Difference = Callable[[int], float]
PEAK, RISING = {1e-5: 0.1, 1e-4: 0.45, 1e-3: 0.3}, {1e-5: 0.1, 1e-4: 0.3, 1e-3: 0.45}
"""Volumes by rate: the best rate is inside the grid, or at its upper edge."""
FAILED, STOPPED, DIVERGED = (
    {"status": status, "forget_loss_capped": None, "retain_loss": None} for status in ("failed", "stopped", "diverged")
)


def table(
    row: MakeRow,
    difference: float | Difference = 0.0,
    *,
    seeds: Sequence[int] = range(30),
    rates: Mapping[float, float] = PEAK,
    sides: Sequence[bool] = (False, True),
    **fields: object,
) -> list[Row]:
    """Return trials at fixed rates with known hypervolumes, and AutoLR trials ``difference`` above the best rate.

    A seed shifts all hypervolumes by the same amount.
    """
    rows = []
    for seed in seeds:
        moved = 0.02 * np.sin(seed)
        if False in sides:
            rows += [row(max(0.0, volume + moved), lr, seed, utility=0.8, **fields) for lr, volume in rates.items()]
        if True in sides:
            own = difference(seed) if callable(difference) else difference
            known = {"utility": 0.3 if own < -0.3 else 0.8} | fields
            rows.append(row(max(rates.values()) + moved + own, 1e-4, seed, auto=True, **known))
    return rows
