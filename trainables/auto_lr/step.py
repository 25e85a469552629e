"""Take one AutoLR step: the optimizer steps once, at the learning rate that a rule fits along the optimizer's update.

Probes move the parameters. Before the final step is applied, the parameters are restored bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trainables.auto_lr.rule import Fit, Memory, Rule, fit_parabola

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


@dataclass(frozen=True, slots=True)
class Update:
    """One AutoLR update.

    Attributes:
        eta, eta_new: the rate before the update and after it.
        fit: the last fit. Losses are in nats per token.
        forget_plus, forget_minus: ``L_F`` after a step at the rate ``eta`` and after the opposite step, if logged.
        probes: the number of evaluations of ``L_R`` at weights other than the weights before the step.
        fallback: the reason why no minimum was found; None if a minimum was found.
        clipped: whether a minimum was found but the rule chose a rate other than ``fit.eta_star``.
    """

    eta: float
    eta_new: float
    fit: Fit
    forget_plus: float | None
    forget_minus: float | None
    probes: int
    fallback: str | None
    clipped: bool

    def row(self) -> dict[str, Any]:
        """Return the columns of auto_lr.csv, except trial and step. ``probe_eta`` is the rate of the fit's probes."""
        values = {"probe_eta": self.fit.eta} | asdict(self.fit) | asdict(self)
        return {name: values[name] for name in UPDATE_COLUMNS}


UPDATE_COLUMNS = (
    *("eta", "eta_star", "eta_new", "probe_eta", "slope", "curvature", "loss_zero", "loss_plus", "loss_minus"),
    *("forget_plus", "forget_minus", "probes", "fallback", "clipped"),
)
"""The columns of auto_lr.csv, except trial and step."""


class Line:
    """The line ``theta - x d`` through the tensors ``theta``, along the update ``d`` of an optimizer.

    The constructor steps the optimizer once, at its rate ``eta``, so the tensors are at ``x = eta`` afterwards.
    """

    def __init__(self, optimizer: Optimizer, tensors: Sequence[Tensor]) -> None:
        self.eta = float(optimizer.param_groups[0]["lr"])
        self._tensors, self._start = tensors, [tensor.detach().clone() for tensor in tensors]
        optimizer.step()
        # Integer and boolean buffers (counters, masks) are not moved, only restored.
        self._moves = [
            tensor.detach() - before if tensor.is_floating_point() else None
            for tensor, before in zip(tensors, self._start, strict=True)
        ]

    def go(self, x: float) -> None:
        """Set the tensors to ``theta - x d``, from a copy of theta, as adding ``x d`` again leaves rounding errors."""
        for tensor, before, move in zip(self._tensors, self._start, self._moves, strict=True):
            tensor.copy_(before)
            if move is not None:
                tensor.add_(move, alpha=x / self.eta)


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

    logged: Callable[[], float | None] = forget_loss or (lambda: None)
    with torch.no_grad():
        zero = retain_loss() if loss_zero is None else loss_zero
        line = Line(optimizer, tensors)
        eta = line.eta
        plus, forget_plus = retain_loss(), logged()
        line.go(-eta)
        minus, forget_minus = retain_loss(), logged()
        fits = [fit_parabola(eta, zero, plus, minus)]

        def probe(x: float) -> Fit:
            line.go(x)
            ahead = retain_loss()
            line.go(-x)
            fits.append(fit_parabola(x, zero, ahead, retain_loss()))
            return fits[-1]

        proposal, memory = rule.propose(memory, fits[0], probe)
        new_eta = eta if proposal.eta is None else proposal.eta
        if observe is not None:
            observe(line.go, fits[-1])
        line.go(new_eta)
    for group in optimizer.param_groups:
        group["lr"] *= new_eta / eta
    wanted = fits[-1].eta_star
    reached = wanted is not None and math.isclose(new_eta, wanted, rel_tol=1e-9)
    update = Update(
        eta=eta,
        eta_new=new_eta,
        fit=fits[-1],
        forget_plus=forget_plus,
        forget_minus=forget_minus,
        probes=2 * len(fits),
        fallback=proposal.reason,
        clipped=proposal.is_minimum and proposal.reason is None and not reached,
    )
    return update, memory
