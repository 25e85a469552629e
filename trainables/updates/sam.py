"""SAM: take the forget gradient where the forget loss is highest nearby, so that forgetting is harder to undo."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trainables.updates.base import Settings, Update

if TYPE_CHECKING:
    from torch import Tensor


def forget_gradient(parameters: Sequence[Tensor], backward: Callable[[], Tensor], settings: Settings) -> Tensor:
    """Set every ``p.grad`` to the forget gradient at ``theta + rho g_f/|g_f|``, and return the loss at ``theta``.

    ``g_f`` is the gradient at ``theta`` of the forget loss, which training minimises, and ``rho`` is ``sam_rho``. If
    ``g_f`` is 0 or not finite, the gradient is ``g_f``. The retain gradient and the losses are those at ``theta``. A
    step needs a second forward and backward pass over the forget batch, and a copy of the trained weights. Dropout
    draws again in the second pass, and batch norm counts both passes in its running statistics.

    The authors' code (github.com/OPTML-Group/Unlearn-Smooth, MIT) computes the same gradient.
    """
    import torch

    from trainables.gradients import total_norm

    loss = backward()
    moved = [parameter for parameter in parameters if parameter.grad is not None]
    gradient = [parameter.grad for parameter in parameters if parameter.grad is not None]
    length = float(total_norm(gradient)) if gradient else 0.0
    if length == 0 or not math.isfinite(length):
        return loss
    originals = [parameter.detach().clone() for parameter in moved]
    with torch.no_grad():
        torch._foreach_add_(moved, gradient, alpha=settings["sam_rho"] / length)
    for parameter in moved:
        parameter.grad = None
    backward()
    with torch.no_grad():
        for parameter, original in zip(moved, originals, strict=True):
            parameter.copy_(original)  # subtracting the perturbation would leave rounding errors
    return loss


UPDATE = Update(
    name="sam",
    formula="the forget gradient at theta + rho g_f/|g_f|, the retain gradient at theta",
    citation="Fan et al., Towards LLM Unlearning Resilient to Relearning Attacks: A Sharpness-Aware Minimization "
    "Perspective and Beyond, ICML 2025 (arXiv:2502.05374)",
    forget_gradient=forget_gradient,
    forward_passes=2,
)
