"""A frontier in a terminal: points of two objectives as characters."""

from __future__ import annotations

from collections.abc import Collection, Sequence

Point = tuple[float, float]
_FRONT, _OTHER = "●", "·"
_MARGIN = 0.15


def text_plot(
    points: Collection[Point], front: Collection[Point], *, names: Sequence[str], width: int = 48, height: int = 8
) -> list[str]:
    """Lines with the ``front`` as dots among the other ``points``; [] where there is no front.

    The window is that of the front and a margin: what lies beyond it, a diverged epoch for one, is not drawn.
    ``names`` are those of the axes, x and then y.
    """
    if not front:
        return []
    (left, right), (bottom, top) = (_window([point[axis] for point in front]) for axis in (0, 1))
    cells = [[" "] * width for _ in range(height)]
    for mark, shown in ((_OTHER, points), (_FRONT, front)):
        for x, y in shown:
            if left <= x <= right and bottom <= y <= top:
                column = round((x - left) / (right - left) * (width - 1))
                cells[height - 1 - round((y - bottom) / (top - bottom) * (height - 1))][column] = mark
    high, low = f"{top:.3g}", f"{bottom:.3g}"
    edge = max(map(len, (high, low)))
    labels = [high, *[""] * (height - 2), low]
    start, end = f"{left:.3g}", f"{right:.3g}"
    middle = names[0].center(width - len(start) - len(end))
    return [
        f"{' ' * edge} {names[1]}",
        *(f"{label:>{edge}} │{''.join(row)}".rstrip() for label, row in zip(labels, cells, strict=True)),
        f"{' ' * edge} └{'─' * width}",
        f"{' ' * edge}  {start}{middle}{end}",
    ]


def _window(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
    return low - margin, high + margin
