"""Inner products and weighted sums of gradients that are lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.weightings import Gradient, Gramian, Weights

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Gradient", "combine_", "gramian", "norm", "take_gradient"]

_CHUNK = 1 << 24


def take_gradient(parameters: Sequence[Tensor]) -> Gradient:
    """The gradients as they are, detached from their parameters (``p.grad`` becomes None, nothing is copied)."""
    gradient = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return gradient


def gramian(retain: Gradient, forget: Gradient) -> Gramian:
    """``g_r.g_r``, ``g_r.g_f`` and ``g_f.g_f``, accumulated in float64, with one transfer to the host.

    float32 sums over 16M elements are off by 1e-3, which a normalised direction would inherit.
    """
    import torch

    rr, rf, ff = [], [], []
    for g_r, g_f in zip(retain, forget, strict=True):
        if g_r is not None:
            rr.append(_dot(g_r, g_r))
        if g_f is not None:
            ff.append(_dot(g_f, g_f))
        if g_r is not None and g_f is not None:
            rf.append(_dot(g_r, g_f))
    sums = torch.stack([torch.stack(terms).sum() if terms else _zero(retain, forget) for terms in (rr, rf, ff)])
    return Gramian(*sums.tolist())


def norm(gradient: Gradient) -> float:
    """The Euclidean norm, accumulated in float64."""
    import torch

    terms = [_dot(part, part) for part in gradient if part is not None]
    return math.sqrt(torch.stack(terms).sum().item()) if terms else 0.0


def combine_(parameters: Sequence[Tensor], retain: Gradient, forget: Gradient, weights: Weights) -> None:
    """``p.grad = w_r g_r + w_f g_f``, in place in the forget gradient's memory where there is one.

    A weight of exactly 0 drops its gradient altogether, so that ``0 * inf`` cannot leak a NaN into the step.
    """
    for parameter, g_r, g_f in zip(parameters, retain, forget, strict=True):
        kept_r = g_r if weights.retain != 0 else None
        kept_f = g_f if weights.forget != 0 else None
        if kept_f is not None:
            parameter.grad = kept_f.mul_(weights.forget)
            if kept_r is not None:
                parameter.grad.add_(kept_r, alpha=weights.retain)
        elif kept_r is not None:
            parameter.grad = kept_r.mul_(weights.retain)
        else:
            parameter.grad = None


def _dot(x: Tensor, y: Tensor) -> Tensor:
    import torch

    flat_x, flat_y = x.reshape(-1), y.reshape(-1)
    # In chunks: the float64 copies of a 100M-element embedding would take 1.6 GB at once.
    parts = [
        torch.dot(flat_x[i : i + _CHUNK].double(), flat_y[i : i + _CHUNK].double()) for i in range(0, x.numel(), _CHUNK)
    ]
    return torch.stack(parts).sum()


def _zero(*gradients: Gradient) -> Tensor:
    import torch

    device = next((part.device for gradient in gradients for part in gradient if part is not None), "cpu")
    return torch.zeros((), dtype=torch.float64, device=device)
