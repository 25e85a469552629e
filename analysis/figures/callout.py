"""Find the position of a label beside a point at which the label hides the fewest points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

Place = tuple[float, float]
"""A position in the plot: (0, 0) is the lower left corner and (1, 1) the upper right corner."""

_GAPS = (0.6, 1.6, 3.2)
"""The distances between point and label that are tried, as multiples of the label's height."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in the plot, given by its edges."""

    left: float
    bottom: float
    right: float
    top: float

    def hides(self, points: Sequence[Place], line: Sequence[Place]) -> int:
        """Count the ``points`` inside the box and the segments of ``line`` that cross it (all parallel to an axis)."""
        inside = sum(self.left <= x <= self.right and self.bottom <= y <= self.top for x, y in points)
        crossing = sum(
            min(x, u) <= self.right and max(x, u) >= self.left and min(y, v) <= self.top and max(y, v) >= self.bottom
            for (x, y), (u, v) in pairwise(line)
        )
        return inside + crossing

    def sticks_out(self) -> bool:
        """Return whether a part of the box is outside the plot."""
        return self.left < 0 or self.bottom < 0 or self.right > 1 or self.top > 1


def place_beside_line(at: float, width: float, height: float, points: Sequence[Place]) -> tuple[bool, bool]:
    """Return whether a horizontal line at height ``at`` has its label at the right end, and whether above the line."""

    def box(right: bool, above: bool) -> Box:
        left, bottom = (1.0 - width if right else 0.0), (at if above else at - height)
        return Box(left, bottom, left + width, bottom + height)

    candidates = list(product((True, False), (True, False)))
    return min(candidates, key=lambda where: (box(*where).sticks_out(), box(*where).hides(points, ())))


def place_label(at: Place, width: float, height: float, *, points: Sequence[Place], line: Sequence[Place]) -> Box:
    """Return the best box for the label of the point ``at``.

    Boxes inside the plot come first, then boxes that hide the fewest points and line segments, then the nearest box.
    """
    x, y = at
    candidates = []
    for gap, right, above in product(_GAPS, (True, False), (True, False)):
        off = gap * height
        left = x + off if right else x - off - width
        # A wide box may cover the point, so that it does not leave the plot.
        left = min(max(left, 0.0), max(0.0, 1.0 - width))
        bottom = y + off if above else y - off - height
        candidates.append(Box(left, bottom, left + width, bottom + height))
    return min(candidates, key=lambda box: (box.sticks_out(), box.hides(points, line)))
