"""AutoLR: the learning rate that minimises a parabola fitted to the retain loss along the step (paper, Eq. 8).

Along ``theta - x d`` the retain loss is ``L0 - x G + x^2 H / 2``, minimal at ``eta* = G / H``. With ``L+ = L_R(theta -
eta d)`` and ``L- = L_R(theta + eta d)``, both free of gradients,

    G = (L- - L+) / (2 eta)        H = (L- + L+ - 2 L0) / eta^2.

The paper's Algorithm 1 probes ``theta ± eta d`` in the other order, which yields minus the step; this module does not.
One AutoLR step advances the optimizer exactly once, and the parameters come back bit for bit before the final step is
applied: ``w + d - d`` would not restore a float, so they are copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

FALLBACKS = ("not finite", "no descent", "no curvature")
"""Why a fit is refused: a probe was NaN or infinite; G <= 0 (the step does not lower L_R); H <= 0 (no minimum)."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One fitted parabola: probed losses, slope ``G``, curvature ``H``, ``eta*`` or the reason there is none."""

    eta: float
    loss_zero: float
    loss_plus: float
    loss_minus: float
    slope: float
    curvature: float
    eta_star: float | None
    fallback: str | None


def fit_parabola(eta: float, loss_zero: float, loss_plus: float, loss_minus: float) -> Fit:
    """The closed form above, in float64; ``eta > 0``."""
    slope = (loss_minus - loss_plus) / (2.0 * eta)
    curvature = (loss_minus + loss_plus - 2.0 * loss_zero) / eta**2
    fallback = None
    if not (math.isfinite(slope) and math.isfinite(curvature)):
        fallback = "not finite"
    elif slope <= 0.0:
        fallback = "no descent"
    elif curvature <= 0.0:
        fallback = "no curvature"
    eta_star = None
    if fallback is None:
        eta_star = slope / curvature
        if not (math.isfinite(eta_star) and eta_star > 0.0):
            eta_star, fallback = None, "not finite"
    return Fit(eta, loss_zero, loss_plus, loss_minus, slope, curvature, eta_star, fallback)


def smooth(smoothing: str, eta: float, eta_star: float) -> float:
    """The new learning rate.

    ``paper``: jump to ``eta*``. ``clip``: ``eta*`` clipped to ``[eta/2, 2 eta]``. ``official`` (the released GeN code):
    ``0.9 eta + 0.1 clip(eta*)``, at most a factor 1.10 up per update.

    Raises:
        ValueError: unknown smoothing.
    """
    if smoothing == "paper":
        return eta_star
    clipped = min(max(eta_star, eta / 2.0), 2.0 * eta)
    if smoothing == "clip":
        return clipped
    if smoothing == "official":
        return 0.9 * eta + 0.1 * clipped
    raise ValueError(f"unknown AutoLR smoothing '{smoothing}': expected paper, clip or official")


@dataclass(slots=True)
class AutoLRCounts:
    """How often AutoLR updated the learning rate, and how often and why it kept it."""

    updates: int = 0
    not_finite: int = 0
    no_descent: int = 0
    no_curvature: int = 0

    def record(self, fit: Fit) -> None:
        """Count one fit."""
        name = "updates" if fit.fallback is None else fit.fallback.replace(" ", "_")
        setattr(self, name, getattr(self, name) + 1)

    def to_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)


def is_due(step: int, *, every: int, start: int) -> bool:
    """Whether AutoLR probes at this step (counted from 1): at ``start`` and every ``every`` steps from there."""
    return step >= start and (step - start) % every == 0


def auto_lr_step(
    optimizer: Optimizer,
    tensors: Sequence[Tensor],
    retain_loss: Callable[[], float],
    *,
    smoothing: str,
    loss_zero: float | None = None,
) -> Fit:
    """Step ``optimizer`` once, at a learning rate fitted along its own update.

    Args:
        optimizer: its update must be linear in lr (SGD, AdamW); all groups are scaled alike, and ``eta`` is the
            first group's.
        tensors: everything the step or the probes may change: the trainable parameters, and buffers if any.
        retain_loss: evaluates ``L_R`` at the present parameters without gradients.
        smoothing: see :func:`smooth`.
        loss_zero: ``L_R`` before the step on the batch of ``retain_loss``, when it is already known.
    """
    import torch

    with torch.no_grad():
        start = [tensor.detach().clone() for tensor in tensors]
        if loss_zero is None:
            loss_zero = retain_loss()
        eta = float(optimizer.param_groups[0]["lr"])
        optimizer.step()
        # Counters and masks among the buffers have no direction to move along: they are put back, no more.
        delta = [
            tensor.detach() - before if tensor.is_floating_point() else None
            for tensor, before in zip(tensors, start, strict=True)
        ]
        loss_plus = retain_loss()
        for tensor, before, move in zip(tensors, start, delta, strict=True):
            tensor.copy_(before)
            if move is not None:
                tensor.sub_(move)
        loss_minus = retain_loss()
        fit = fit_parabola(eta, loss_zero, loss_plus, loss_minus)
        new_eta = eta if fit.eta_star is None else smooth(smoothing, eta, fit.eta_star)
        for tensor, before, move in zip(tensors, start, delta, strict=True):
            tensor.copy_(before)
            if move is not None:
                tensor.add_(move, alpha=new_eta / eta)
        for group in optimizer.param_groups:
            group["lr"] *= new_eta / eta
    return fit
