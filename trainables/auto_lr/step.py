"""Take one AutoLR step: the optimizer steps once, at the learning rate that a rule fits along the optimizer's update.

Probes move the parameters. Before the final step is applied, the parameters are restored bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from trainables.auto_lr.rule import Fit, Memory, Rule, fit_parabola

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


@dataclass(frozen=True, slots=True)
class Update:
    """One AutoLR update. Its fields are the columns of auto_lr.csv.

    Attributes:
        eta, eta_new: the rate before the update and after it.
        probe_eta, slope, curvature, loss_zero, loss_plus, loss_minus, eta_star: values of the last fit. ``probe_eta``
            is the rate at which the fit was probed. Losses are in nats per token.
        forget_plus, forget_minus: ``L_F`` after a step at the rate ``eta`` and after the opposite step, if logged.
        probes: the number of evaluations of ``L_R`` at weights other than the weights before the step.
        fallback: the reason why no minimum was found; None if a minimum was found.
        clipped: whether a minimum was found but the rule chose a rate other than ``eta_star``.
    """

    eta: float
    eta_star: float | None
    eta_new: float
    probe_eta: float
    slope: float
    curvature: float
    loss_zero: float
    loss_plus: float
    loss_minus: float
    forget_plus: float | None
    forget_minus: float | None
    probes: int
    fallback: str | None
    clipped: bool


UPDATE_COLUMNS = tuple(field.name for field in fields(Update))
"""The columns of auto_lr.csv, except trial and step."""


def auto_lr_step(  # noqa: PLR0913
    optimizer: Optimizer,
    tensors: Sequence[Tensor],
    retain_loss: Callable[[], float],
    *,
    rule: Rule,
    memory: Memory,
    loss_zero: float | None = None,
    forget_loss: Callable[[], float] | None = None,
    observe: Callable[[Callable[[float], None], Fit], None] | None = None,
) -> tuple[Update, Memory]:
    """Step ``optimizer`` once, at the rate that ``rule`` proposes. Return the update and the rule's new memory.

    Args:
        optimizer: an optimizer whose update is linear in lr, such as SGD or AdamW. The rates of all parameter groups
            are multiplied by the same factor; ``eta`` is the rate of the first group.
        tensors: all tensors that the step or the probes may change: the trainable parameters and the buffers.
        retain_loss: evaluates ``L_R`` at the current parameters without gradients.
        loss_zero: ``L_R`` before the step, on the batches of ``retain_loss``; if None, this loss is computed.
        forget_loss: evaluates ``L_F``, which is logged at the first two probes; None if ``L_F`` is not logged.
        observe: a function that is called before the final step. Its arguments are a function that moves the parameters
            to ``theta - x d``, and the last fit. Changes of the parameters by ``observe`` are undone.
    """
    import torch

    with torch.no_grad():
        start = [tensor.detach().clone() for tensor in tensors]
        zero = retain_loss() if loss_zero is None else loss_zero
        eta = float(optimizer.param_groups[0]["lr"])
        optimizer.step()
        # Integer and boolean buffers (counters, masks) are not moved, only restored.
        moves = [
            tensor.detach() - before if tensor.is_floating_point() else None
            for tensor, before in zip(tensors, start, strict=True)
        ]

        def go(x: float) -> None:
            """Set the tensors to ``theta - x d``, from a copy of theta: adding ``x d`` again would leave rounding
            errors."""
            for tensor, before, move in zip(tensors, start, moves, strict=True):
                tensor.copy_(before)
                if move is not None:
                    tensor.add_(move, alpha=x / eta)

        plus = retain_loss()
        forget_plus = forget_loss() if forget_loss else None
        go(-eta)
        minus = retain_loss()
        forget_minus = forget_loss() if forget_loss else None
        fits = [fit_parabola(eta, zero, plus, minus)]

        def probe(x: float) -> Fit:
            go(x)
            ahead = retain_loss()
            go(-x)
            fits.append(fit_parabola(x, zero, ahead, retain_loss()))
            return fits[-1]

        proposal, memory = rule.propose(memory, fits[0], probe)
        new_eta = eta if proposal.eta is None else proposal.eta
        if observe is not None:
            observe(go, fits[-1])
        go(new_eta)
        for group in optimizer.param_groups:
            group["lr"] *= new_eta / eta
    last = fits[-1]
    reached = last.eta_star is not None and math.isclose(new_eta, last.eta_star, rel_tol=1e-9)
    update = Update(
        eta=eta,
        eta_star=last.eta_star,
        eta_new=new_eta,
        probe_eta=last.eta,
        slope=last.slope,
        curvature=last.curvature,
        loss_zero=last.loss_zero,
        loss_plus=last.loss_plus,
        loss_minus=last.loss_minus,
        forget_plus=forget_plus,
        forget_minus=forget_minus,
        probes=2 * len(fits),
        fallback=proposal.reason,
        clipped=proposal.is_minimum and proposal.reason is None and not reached,
    )
    return update, memory
