"""The columns of auto_lr.csv, and the line along which an update moves the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


_RATES = ("eta", "eta_star", "eta_new", "probe_eta")
_PARABOLA = ("slope", "curvature", "loss_zero", "loss_plus", "loss_minus")
UPDATE_COLUMNS = (*_RATES, *_PARABOLA, "forget_plus", "forget_minus", "probes", "fallback")
"""The columns of auto_lr.csv, except trial and step. Losses are in nats per token.

``eta`` and ``eta_new`` are the rates before and after the update, without the factor of the learning-rate schedule. The
last parabola was fitted at the rate ``probe_eta``; its values are the fields of :class:`~trainables.auto_lr.fit.Fit`.
``forget_plus`` and ``forget_minus`` are ``L_F`` at the rates ``eta`` and ``-eta``; None if not logged. ``probes`` is
the number of measurements of ``L_R`` away from the current weights. ``fallback`` is the reason why the update kept the
rate; None for an accepted update.
"""


class Line:
    """The line ``theta - x d`` through the weights ``theta``, along an optimizer's update ``d``.

    The constructor takes one optimizer step, which moves the weights to ``x = eta``, where ``eta`` is the optimizer's
    learning rate. The step must be proportional to the learning rate, as for SGD and AdamW. Create and use a line under
    ``no_grad``.

    Args:
        tensors: all tensors that an optimizer step or a forward pass may change: the trainable parameters and the
            buffers.
    """

    def __init__(self, optimizer: Optimizer, tensors: Sequence[Tensor]) -> None:
        self.eta = float(optimizer.param_groups[0]["lr"])
        self._tensors = tensors
        self._start = [tensor.detach().clone() for tensor in tensors]
        optimizer.step()
        # Integer and boolean buffers (counters, masks) are not moved, only restored.
        self._moves = [
            tensor.detach() - start if tensor.is_floating_point() else None
            for tensor, start in zip(tensors, self._start, strict=True)
        ]

    def along(self, gradients: Sequence[Tensor | None]) -> Line:
        """Return the line ``theta - x s g`` along gradients ``g``. The factor ``s`` makes ``s g`` as long as ``d``.

        So on both lines, the weights at ``x`` have the same distance from ``theta``. A zero gradient gives a line on
        which the weights do not move.

        Args:
            gradients: one gradient for each tensor of this line; None for a tensor that does not move.
        """
        length = sum(float(move.double().square().sum()) for move in self._moves if move is not None)
        norm = sum(float(gradient.double().square().sum()) for gradient in gradients if gradient is not None)
        factor = -math.sqrt(length / norm) if norm > 0.0 else 0.0
        line = copy.copy(self)
        line._moves = [None if gradient is None else factor * gradient for gradient in gradients]
        return line

    def move_to(self, x: float) -> None:
        """Move the weights to ``theta - x d``."""
        for tensor, start, move in zip(self._tensors, self._start, self._moves, strict=True):
            tensor.copy_(start)  # start from the saved weights, so that rounding errors do not accumulate
            if move is not None:
                tensor.add_(move, alpha=x / self.eta)
