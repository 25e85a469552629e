"""One AutoLR step: the optimizer steps once, at the learning rate that a rule fits along its own update.

The parameters come back bit for bit before the final step is applied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from trainables.auto_lr.line import Line
from trainables.auto_lr.parabola import Fit, fit_parabola
from trainables.auto_lr.rule import Memory, Rule

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

UPDATE_COLUMNS = (
    *("eta", "eta_star", "eta_new", "probe_eta", "slope", "curvature"),
    *("loss_zero", "loss_plus", "loss_minus", "forget_plus", "forget_minus"),
    *("probes", "fallback", "clipped"),
)
"""The columns of auto_lr.csv, without trial and step: rates, ``G``, ``H``, losses in nats per token."""


@dataclass(frozen=True, slots=True)
class Update:
    """One AutoLR update, a row of auto_lr.csv: the last fit made, the rate before and after, what was probed.

    ``forget_plus`` and ``forget_minus`` are ``L_F`` at ``theta - eta d`` and ``theta + eta d`` (nats per token), None
    unless asked for; ``probes`` counts evaluations of ``L_R`` away from theta. ``fallback`` is why the rate was kept.
    ``clipped``: the rule held the rate back from ``eta*``.
    """

    eta: float
    eta_new: float
    fit: Fit
    fallback: str | None
    clipped: bool
    probes: int
    forget_plus: float | None = None
    forget_minus: float | None = None

    def row(self) -> dict[str, float | str | bool | None]:
        """The columns of auto_lr.csv, without trial and step."""
        fit = self.fit
        values = (
            *(self.eta, fit.eta_star, self.eta_new, fit.eta, fit.slope, fit.curvature),
            *(fit.loss_zero, fit.loss_plus, fit.loss_minus, self.forget_plus, self.forget_minus),
            *(self.probes, self.fallback, self.clipped),
        )
        return dict(zip(UPDATE_COLUMNS, values, strict=True))


@dataclass(slots=True)
class AutoLRCounts:
    """How often AutoLR updated the learning rate, and how often and why it kept it; how often it was held back."""

    updates: int = 0
    not_finite: int = 0
    no_descent: int = 0
    no_curvature: int = 0
    clipped: int = 0

    def record(self, update: Update) -> None:
        """Count one update."""
        name = "updates" if update.fallback is None else update.fallback.replace(" ", "_")
        setattr(self, name, getattr(self, name) + 1)
        self.clipped += update.clipped

    def to_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)


def auto_lr_step(
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
    """Step ``optimizer`` once, at the rate that ``rule`` proposes; returns what was done and the rule's new memory.

    Args:
        optimizer: its update must be linear in lr (SGD, AdamW); all groups are scaled alike, and ``eta`` is the
            first group's.
        tensors: everything the step or the probes may change: the trainable parameters, and buffers if any.
        retain_loss: evaluates ``L_R`` at the present parameters without gradients.
        loss_zero: ``L_R`` before the step on the batch of ``retain_loss``, when it is already known.
        forget_loss: evaluates ``L_F``, to be logged at the first two probes.
        observe: called before the final step with a function that moves the parameters to ``theta - x d``, and the
            last fit; what it leaves behind is undone.
    """
    import torch

    with torch.no_grad():
        line = Line(tensors)
        zero = retain_loss() if loss_zero is None else loss_zero
        eta = float(optimizer.param_groups[0]["lr"])
        optimizer.step()
        line.stepped(eta)
        plus = retain_loss()
        forget_plus = forget_loss() if forget_loss else None
        line.go(-eta)
        minus = retain_loss()
        forget_minus = forget_loss() if forget_loss else None
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
    clipped = proposal.reason is None and (wanted is None or not math.isclose(new_eta, wanted, rel_tol=1e-9))
    update = Update(eta, new_eta, fits[-1], proposal.reason, clipped, 2 * len(fits), forget_plus, forget_minus)
    return update, memory
