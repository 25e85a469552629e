"""Inner products and weighted sums of gradients that are lists of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from trainables.weightings import Gradient, Gramian, Weights

_CHUNK = 1 << 24
_CPU_CHUNK = 1 << 18
"""Elements converted at a time: few launches on a GPU; what stays in the cache of a CPU, twenty times as fast."""


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
    rr: list[Tensor] = []
    rf: list[Tensor] = []
    ff: list[Tensor] = []
    for g_r, g_f in zip(retain, forget, strict=True):
        for part_r, part_f in _chunks(g_r, g_f):
            if part_r is not None:
                rr.append(torch.dot(part_r, part_r))
            if part_f is not None:
                ff.append(torch.dot(part_f, part_f))
            if part_r is not None and part_f is not None:
                rf.append(torch.dot(part_r, part_f))
    sums = torch.stack([torch.stack(terms).sum() if terms else _zero(retain, forget) for terms in (rr, rf, ff)])
    return Gramian(*sums.tolist())


def norm(gradient: Gradient) -> float:
    """The Euclidean norm, accumulated in float64."""
    parts = [part for part in gradient if part is not None]
    return float(total_norm(parts)) if parts else 0.0


def total_norm(parts: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of all elements together, float64, as a scalar on their device; at least one part.

    float64 inside, too: torch's float32 norm of 16M elements is off by 5e-4.
    """
    found: Tensor = torch.stack(torch._foreach_norm(list(parts), 2, dtype=torch.float64)).norm()
    return found


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


def clip_(gradient: Gradient, limit: float | None, length: float) -> None:
    """Shorten the gradient of norm ``length`` to ``limit``; it changes normalised directions, so no limit is usual.

    By torch's rule, ``g *= min(1, limit / (|g| + 1e-6))``, with the norm that is known already.
    """
    if limit is not None and (factor := limit / (length + 1e-6)) < 1.0:
        torch._foreach_mul_([part for part in gradient if part is not None], factor)


def _chunks(*parts: Tensor | None) -> Iterator[tuple[Tensor | None, ...]]:
    """Tensors of one shape in float64, flat, a chunk at a time; all at once a 100M-element embedding takes 1.6 GB."""
    given = [part for part in parts if part is not None]
    if not given:
        return
    flat = [None if part is None else part.reshape(-1) for part in parts]
    size = _CHUNK if given[0].is_cuda else _CPU_CHUNK
    for start in range(0, given[0].numel(), size):
        yield tuple(None if part is None else part[start : start + size].double() for part in flat)


def _zero(*gradients: Gradient) -> Tensor:
    device = next((part.device for gradient in gradients for part in gradient if part is not None), "cpu")
    return torch.zeros((), dtype=torch.float64, device=device)
