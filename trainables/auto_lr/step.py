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

TRUST = 2.0
"""``search`` takes a parabola's minimum up to this factor away from where the parabola was probed."""

STRIDE = 4.0
"""``search`` moves its probe by at most this factor at a time."""

HARM = 1.1
"""Before its first success, ``search`` does not accept a rate whose one step multiplies the retain loss by more."""

MOST_FITS = 6
"""``search`` makes at most so many fits in one update, which reaches a factor ``2 * 4^5`` from the present rate."""

UPDATE_COLUMNS = (
    *("eta", "eta_star", "eta_new", "probe_eta", "slope", "curvature"),
    *("loss_zero", "loss_plus", "loss_minus", "forget_plus", "forget_minus"),
    *("probes", "fallback", "clipped"),
)
"""The columns of auto_lr.csv, without trial and step: rates, ``G``, ``H``, losses in nats per token."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One fitted parabola: probed losses, slope ``G``, curvature ``H``, ``eta*`` or the reason there is none.

    The reasons: ``not finite`` (a probe was NaN or infinite), ``no descent`` (``G <= 0``: the step does not lower
    ``L_R``), ``no curvature`` (``H <= 0``: no minimum).
    """

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
    ``0.9 eta + 0.1 clip(eta*)``, at most a factor 1.10 up per update. This project's own ``search`` and ``trust`` are
    no function of one fit: see :func:`search`; ``trust`` searches freely until it first succeeds, which forgets where
    it started, and later stays within ``[eta/2, 2 eta]``.

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


@dataclass(frozen=True, slots=True)
class Update:
    """One AutoLR update, a row of auto_lr.csv: the last fit made, the rate before and after, what was probed.

    ``forget_plus`` and ``forget_minus`` are ``L_F`` at ``theta - eta d`` and ``theta + eta d`` (nats per token), None
    unless asked for; ``probes`` counts evaluations of ``L_R`` away from theta. ``clipped``: the smoothing held the
    rate back from ``eta*``.
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


def is_due(step: int, *, every: int, start: int) -> bool:
    """Whether AutoLR probes at this step (counted from 1): at ``start`` and every ``every`` steps from there."""
    return step >= start and (step - start) % every == 0


def search(first: Fit, probe: Callable[[float], Fit], *, settled: bool) -> tuple[Fit, float | None, int]:
    """Probe at other distances until a parabola's minimum lies within a factor ``TRUST`` of where it was probed.

    A parabola through ``x = 0, ±h`` says little about ``x`` far from ``h``: far below, float32 rounding of the losses
    is all it sees; far above, the loss is no parabola any more. So its minimum is taken only near ``h``; otherwise
    ``h`` goes there, by a factor ``STRIDE`` at most, and once there are distances too near and too far, between them.
    A step that starts uphill (the minimum lies behind theta) is refused as ever. But a rate that no update has chosen
    yet is a guess, and may be so large that its probes lie beyond the valley: until then, uphill by a factor ``HARM``
    means too far to tell.

    Args:
        first: the fit at the present rate.
        probe: fits at another distance; two evaluations of the loss each.
        settled: whether an earlier update chose the present rate.

    Returns:
        the last fit, the new rate or None to keep the old one, and how many fits were added.
    """
    fit, low, high = first, 0.0, math.inf
    for added in range(MOST_FITS):
        wanted = _wanted(fit)
        if wanted is None and not settled and fit.loss_plus > HARM * fit.loss_zero:
            wanted = 0.0
        if wanted is None and low == 0.0:
            return fit, (None if settled or not added else fit.eta), added
        if wanted is not None and fit.eta / TRUST <= wanted <= fit.eta * TRUST:
            return fit, wanted, added
        if wanted is not None and wanted > fit.eta:
            low = fit.eta
        else:
            high = fit.eta
        if added == MOST_FITS - 1:
            break
        if low > 0.0 and math.isfinite(high):
            if high <= low * TRUST:
                return fit, math.sqrt(low * high), added
            fit = probe(math.sqrt(low * high))
        else:
            fit = probe(min(max(wanted or 0.0, fit.eta / STRIDE), fit.eta * STRIDE))
    # Out of probes: as far as the loss was seen to fall, or nearer than the probes, which all went too far.
    nearer = None if fit.fallback == "not finite" else max(wanted or 0.0, fit.eta / STRIDE)
    return fit, (low if low > 0.0 else nearer), MOST_FITS - 1


def _wanted(fit: Fit) -> float | None:
    """Where the minimum seems to be: 0 for too near to tell, infinity for beyond; None for behind theta."""
    if fit.fallback == "not finite":
        return 0.0
    if fit.curvature <= 0.0:
        return math.inf if fit.slope > 0.0 else None
    minimum = fit.slope / fit.curvature
    return max(0.0, minimum) if minimum > -fit.eta / STRIDE else None


class Line:
    """The tensors on the line ``theta - x d`` that one optimizer step spans; they start at ``x = 0``."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._start = [tensor.detach().clone() for tensor in tensors]
        self._move: list[Tensor | None] = []
        self._eta = 0.0

    def stepped(self, eta: float) -> None:
        """The optimizer has stepped at rate ``eta``: the tensors are at ``x = eta``."""
        self._eta = eta
        # Counters and masks among the buffers have no direction to move along: they are put back, no more.
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


def auto_lr_step(
    optimizer: Optimizer,
    tensors: Sequence[Tensor],
    retain_loss: Callable[[], float],
    *,
    smoothing: str,
    loss_zero: float | None = None,
    forget_loss: Callable[[], float] | None = None,
    observe: Callable[[Callable[[float], None], Fit], None] | None = None,
    settled: bool = False,
) -> Update:
    """Step ``optimizer`` once, at a learning rate fitted along its own update.

    Args:
        optimizer: its update must be linear in lr (SGD, AdamW); all groups are scaled alike, and ``eta`` is the
            first group's.
        tensors: everything the step or the probes may change: the trainable parameters, and buffers if any.
        retain_loss: evaluates ``L_R`` at the present parameters without gradients.
        smoothing: see :func:`smooth`.
        loss_zero: ``L_R`` before the step on the batch of ``retain_loss``, when it is already known.
        forget_loss: evaluates ``L_F``, to be logged at the first two probes.
        observe: called before the final step with a function that moves the parameters to ``theta - x d``, and the
            fit; what it leaves behind is undone.
        settled: whether an earlier update chose the present rate; see :func:`search` and :func:`smooth`.
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
        fit = fit_parabola(eta, zero, plus, minus)
        added, fallback = 0, fit.fallback
        if smoothing in ("search", "trust"):

            def probe(x: float) -> Fit:
                line.go(x)
                ahead = retain_loss()
                line.go(-x)
                return fit_parabola(x, zero, ahead, retain_loss())

            fit, found, added = search(fit, probe, settled=settled)
            fallback = fit.fallback if found is None else None
            new_eta = eta if found is None else found
            if smoothing == "trust" and settled:
                new_eta = min(max(new_eta, eta / 2.0), 2.0 * eta)
        else:
            new_eta = eta if fit.eta_star is None else smooth(smoothing, eta, fit.eta_star)
        if observe is not None:
            observe(line.go, fit)
        line.go(new_eta)
        for group in optimizer.param_groups:
            group["lr"] *= new_eta / eta
    held_back = fallback is None and (fit.eta_star is None or not math.isclose(new_eta, fit.eta_star, rel_tol=1e-9))
    return Update(eta, new_eta, fit, fallback, held_back, 2 + 2 * added, forget_plus, forget_minus)
