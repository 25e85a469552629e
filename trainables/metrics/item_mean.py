"""The value of a metric that is a mean over items, with the values of the items.

With the values of the items, the metric can be computed again on a part of the items, such as a bootstrap sample.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainables.metrics.metric import Array

ITEM_SCORES = "scores"
"""The key of the items' values by metric in a per-item log."""


class ItemMean(float):
    """The value of a metric. It equals ``sum(totals) / sum(counts)`` or, with several parts, their harmonic mean.

    Attributes:
        parts: pairs (``totals``, ``counts``) of arrays, ``(n,)`` each. An item with the count 0 has no value.
    """

    parts: tuple[tuple[Array, Array], ...]

    def __new__(cls, value: float, parts: Iterable[tuple[Array, Array]] = ()) -> ItemMean:
        self = super().__new__(cls, value)
        self.parts = tuple(parts)
        return self

    def to_json(self) -> list[dict[str, object]]:
        """Return the values of the items as lists, rounded to six digits. If all counts are 1, they are left out."""
        return [
            {"totals": [float(f"{total:.6g}") for total in totals]}
            | ({"counts": counts.astype(int).tolist()} if (counts != 1.0).any() else {})
            for totals, counts in self.parts
        ]


def item_mean(values: Array) -> ItemMean:
    """Return the mean over the items; NaN if a value is NaN. ``values`` is ``(n,)``."""
    return ItemMean(values.mean(), [(values, values * 0.0 + 1.0)])
