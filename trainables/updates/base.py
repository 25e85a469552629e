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

Backward = Callable[[], "Tensor"]
ForgetGradient = Callable[["Sequence[Tensor]", Backward, Settings], "Tensor"]
FixedGradient = Callable[["Sequence[Tensor]", Sequence[Backward], Sequence[Backward], Settings], "list[Tensor]"]


@dataclass(frozen=True, slots=True)
class Update:
    """An update in the registry. Its own settings are fields of ``TrialSpec``, with a condition on ``update``.

    Attributes:
        forget_gradient: ``forget_gradient(parameters, backward, settings)`` adds the forget gradient to every
            ``p.grad``, and returns the forget loss at the current weights. A call of ``backward`` adds the gradient at
            the current weights and returns the loss there. Afterwards, the weights must be the same bits. None for one
            call of ``backward``.
        fixed_gradient: ``fixed_gradient(matrices, learn, forget, settings)`` returns the forget gradient of all steps,
            one tensor per matrix. The matrices are those of the decoder blocks, without attention layers; the other
            weights get no forget gradient. ``learn`` and ``forget`` have one function per forget batch, which adds the
            gradient of the cross-entropy or of the forget objective at the current weights to ``p.grad``, and returns
            the loss. Afterwards, the weights must be the same bits. None if each step computes a forget gradient.
        attach: ``attach(optimizer)`` changes the optimizer's steps, by hooks. The length of a step must stay
            proportional to the learning rate. None for the optimizer's own steps.
        optimizers: the optimizers that the update works with; empty for all.
        forward_passes: the number of forward passes over a forget batch per step.
    """

    name: str
    formula: str
    citation: str
    forget_gradient: ForgetGradient | None = None
    fixed_gradient: FixedGradient | None = None
    attach: Callable[[Optimizer], None] | None = None
    optimizers: tuple[str, ...] = ()
    forward_passes: int = 1

    @property
    def changes_forget_gradient(self) -> bool:
        """Whether the forget gradient of a step differs from the gradient of the forget loss at the current weights."""
        return self.forget_gradient is not None or self.fixed_gradient is not None
