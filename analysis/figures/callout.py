"""The place of a label beside a point where it hides the fewest points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

Place = tuple[float, float]
"""A position in the plot: (0, 0) its lower left corner, (1, 1) its upper right one."""

_GAPS = (0.6, 1.6, 3.2)
"""The distances of the label from the point, in heights of the label."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in the plot, by its corners."""

    left: float
    bottom: float
    right: float
    top: float

    def hides(self, points: Sequence[Place], line: Sequence[Place]) -> int:
        """How many of ``points`` lie inside, and segments of ``line``, each along an axis, pass through."""
        inside = sum(self.left <= x <= self.right and self.bottom <= y <= self.top for x, y in points)
        crossing = sum(
            min(x, u) <= self.right and max(x, u) >= self.left and min(y, v) <= self.top and max(y, v) >= self.bottom
            for (x, y), (u, v) in pairwise(line)
        )
        return inside + crossing

    def sticks_out(self) -> bool:
        """Whether a part of it is outside the plot."""
        return self.left < 0 or self.bottom < 0 or self.right > 1 or self.top > 1


def place_beside_line(at: float, width: float, height: float, points: Sequence[Place]) -> tuple[bool, bool]:
    """Whether words on a horizontal line at ``at`` go to its right end and above it, so that they hide least."""

    def box(right: bool, above: bool) -> Box:
        left, bottom = (1.0 - width if right else 0.0), (at if above else at - height)
        return Box(left, bottom, left + width, bottom + height)

    candidates = list(product((True, False), (True, False)))
    return min(candidates, key=lambda where: (box(*where).sticks_out(), box(*where).hides(points, ())))


def place_label(at: Place, width: float, height: float, *, points: Sequence[Place], line: Sequence[Place]) -> Box:
    """The box of a label of the given size beside ``at``: inside the plot if it fits, hiding least, then nearest."""
    x, y = at
    candidates = []
    for gap, right, above in product(_GAPS, (True, False), (True, False)):
        off = gap * height
        left = x + off if right else x - off - width
        # A wide box may lie across the point rather than leave the plot.
        left = min(max(left, 0.0), max(0.0, 1.0 - width))
        bottom = y + off if above else y - off - height
        candidates.append(Box(left, bottom, left + width, bottom + height))
    return min(candidates, key=lambda box: (box.sticks_out(), box.hides(points, line)))
