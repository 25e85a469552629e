"""The parts of an AutoLR update: a row of auto_lr.csv, and the line along which the weights move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trainables.auto_lr.rule import Fit

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


@dataclass(frozen=True, slots=True)
class Update:
    """One AutoLR update.

    Attributes:
        eta, eta_new: the rate before the update and after the update.
        fit: the last fitted parabola. Losses are in nats per token.
        forget_plus, forget_minus: ``L_F`` at the rates ``eta`` and ``-eta``; None if not logged.
        probes: the number of measurements of ``L_R`` away from the current weights.
        fallback: the reason why the rule chose no rate; None if the rule chose a rate.
        clipped: whether a rule without a guard chose a rate other than ``fit.eta_star``.
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
        """Return the columns of auto_lr.csv, except trial and step."""
        values = {"probe_eta": self.fit.eta} | asdict(self.fit) | asdict(self)
        return {name: values[name] for name in UPDATE_COLUMNS}


UPDATE_COLUMNS = (
    *("eta", "eta_star", "eta_new", "probe_eta", "slope", "curvature", "loss_zero", "loss_plus", "loss_minus"),
    *("forget_plus", "forget_minus", "probes", "fallback", "clipped"),
)
"""The columns of auto_lr.csv, except trial and step."""


class Line:
    """The line ``theta - x d`` through the weights ``theta``, along an optimizer's update ``d``.

    The constructor steps the optimizer once, so the weights are at ``x = eta`` afterwards. The update must be linear in
    the rate, as for SGD and AdamW. Create and use a line under ``no_grad``.

    Args:
        tensors: all tensors that a step or a probe may change: the trainable parameters and the buffers.
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
        """Move the weights to ``theta - x d``."""
        for tensor, before, move in zip(self._tensors, self._start, self._moves, strict=True):
            tensor.copy_(before)  # so that rounding errors do not accumulate
            if move is not None:
                tensor.add_(move, alpha=x / self.eta)
