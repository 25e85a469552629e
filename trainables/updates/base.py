"""The interface of an update: how a step uses the gradients, apart from their weighting and from the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

Settings = Mapping[str, Any]
"""The settings of a trial by name, such as ``sam_rho``."""

ForgetGradient = Callable[["Sequence[Tensor]", "Callable[[], Tensor]", Settings], "Tensor"]


@dataclass(frozen=True, slots=True)
class Update:
    """An update in the registry. Its own settings are fields of ``TrialSpec``, with a condition on ``update``.

    Attributes:
        forget_gradient: ``forget_gradient(parameters, backward, settings)`` adds the forget gradient to every
            ``p.grad``, and returns the forget loss at the current weights. A call of ``backward`` adds the gradient at
            the current weights and returns the loss there. Afterwards, the weights must be the same bits. None for one
            call of ``backward``.
        attach: ``attach(optimizer)`` changes the optimizer's steps, by hooks. The length of a step must stay
            proportional to the learning rate. None for the optimizer's own steps.
        optimizers: the optimizers that the update works with; empty for all.
        forward_passes: the number of forward passes over a forget batch per step.
    """

    name: str
    formula: str
    citation: str
    forget_gradient: ForgetGradient | None = None
    attach: Callable[[Optimizer], None] | None = None
    optimizers: tuple[str, ...] = ()
    forward_passes: int = 1
