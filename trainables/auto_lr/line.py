"""Move all weights along the line of one optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Line:
    """Tensors on the line ``theta - x d``, starting at ``x = 0``.

    Every position is computed from a copy of theta, because ``w + d - d`` would not restore a float exactly.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._start = [tensor.detach().clone() for tensor in tensors]
        self._move: list[Tensor | None] = []
        self._eta = 0.0

    def stepped(self, eta: float) -> None:
        """Record that the optimizer has stepped at rate ``eta``, so the tensors are at ``x = eta``."""
        self._eta = eta
        # Counters and masks among the buffers have no direction to move along: they are only restored.
        self._move = [
            tensor.detach() - before if tensor.is_floating_point() else None
            for tensor, before in zip(self._tensors, self._start, strict=True)
        ]

    def go(self, x: float) -> None:
        """Set the tensors to ``theta - x d``, from the exact copy of theta."""
        for tensor, before, move in zip(self._tensors, self._start, self._move, strict=True):
            tensor.copy_(before)
            if move is not None:
                tensor.add_(move, alpha=x / self._eta)
