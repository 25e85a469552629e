"""Compute inner products and weighted sums of gradients. A gradient is a list of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from trainables.weightings import Gradient, Gramian, Weights

_CHUNK = 1 << 24
_CPU_CHUNK = 1 << 18
"""The number of elements that are converted to float64 at once. A CPU is 20 times as fast if a chunk fits its cache."""


def take_gradient(parameters: Sequence[Tensor]) -> Gradient:
    """Return the tensors ``p.grad`` of all parameters without copying them, and set every ``p.grad`` to None."""
    gradient = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return gradient


def gramian(retain: Gradient, forget: Gradient) -> Gramian:
    """Return the inner products ``g_r.g_r``, ``g_r.g_f`` and ``g_f.g_f`` of the retain and forget gradients.

    The sums are computed in float64. In float32, a sum of 16M elements has a relative error of 1e-3.
    """
    pairs = list(zip(retain, forget, strict=True))
    both = [(g_r, g_f) for g_r, g_f in pairs if g_r is not None and g_f is not None]
    rr: list[Tensor] = []
    rf: list[Tensor] = []
    ff: list[Tensor] = []
    for part_r, part_f in zip(_flat([g_r for g_r, _ in both]), _flat([g_f for _, g_f in both]), strict=True):
        rr.append(torch.dot(part_r, part_r))
        rf.append(torch.dot(part_r, part_f))
        ff.append(torch.dot(part_f, part_f))
    rr += [torch.dot(part, part) for part in _flat([g_r for g_r, g_f in pairs if g_r is not None and g_f is None])]
    ff += [torch.dot(part, part) for part in _flat([g_f for g_r, g_f in pairs if g_f is not None and g_r is None])]
    sums = torch.stack([torch.stack(terms).sum() if terms else _zero(retain, forget) for terms in (rr, rf, ff)])
    return Gramian(*sums.tolist())


def norm(gradient: Gradient) -> float:
    """Return the Euclidean norm of a gradient, computed in float64."""
    parts = [part for part in gradient if part is not None]
    return float(total_norm(parts)) if parts else 0.0


def total_norm(parts: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of all elements of the tensors, as a float64 scalar on the tensors' device."""
    found: Tensor = torch.stack(torch._foreach_norm(list(parts), 2, dtype=torch.float64)).norm()
    return found


def combine_(parameters: Sequence[Tensor], retain: Gradient, forget: Gradient, weights: Weights) -> None:
    """Set ``p.grad = w_r g_r + w_f g_f`` for every parameter. The input gradients are overwritten.

    A gradient with weight 0 is ignored, because ``0 * inf`` would give NaN.
    """
    kept_r = [g_r if weights.retain != 0 else None for g_r in retain]
    kept_f = [g_f if weights.forget != 0 else None for g_f in forget]
    pairs = list(zip(kept_r, kept_f, strict=True))
    _scale_([g_f for g_f in kept_f if g_f is not None], weights.forget)
    _scale_([g_r for g_r, g_f in pairs if g_r is not None and g_f is None], weights.retain)
    if both := [(g_r, g_f) for g_r, g_f in pairs if g_r is not None and g_f is not None]:
        torch._foreach_add_([g_f for _, g_f in both], [g_r for g_r, _ in both], alpha=weights.retain)
    for parameter, (g_r, g_f) in zip(parameters, pairs, strict=True):
        parameter.grad = g_r if g_f is None else g_f


def clip_(gradient: Gradient, limit: float | None, length: float) -> None:
    """Clip the norm of a gradient as torch does: ``g *= min(1, limit / (|g| + 1e-6))``.

    ``length`` is ``|g|``, the norm of the gradient. If ``limit`` is None, the gradient is not clipped.
    """
    if limit is not None and (factor := limit / (length + 1e-6)) < 1.0:
        _scale_([part for part in gradient if part is not None], factor)


def _scale_(parts: list[Tensor], factor: float) -> None:
    if parts:
        torch._foreach_mul_(parts, factor)


def _flat(parts: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the elements of all tensors as float64 chunks. Chunk sizes depend only on the tensors' shapes."""
    size = _CHUNK if parts and parts[0].is_cuda else _CPU_CHUNK
    small: list[Tensor] = []
    held = 0
    # Small tensors share a chunk. Large tensors are split: an embedding with 100M elements needs 0.8 GB in float64.
    for flat in (part.reshape(-1) for part in parts):
        if small and held + flat.numel() > size:
            yield torch.cat(small).double()
            small, held = [], 0
        if flat.numel() > size:
            yield from (flat[start : start + size].double() for start in range(0, flat.numel(), size))
        else:
            small.append(flat)
            held += flat.numel()
    if small:
        yield torch.cat(small).double()


def _zero(*gradients: Gradient) -> Tensor:
    device = next((part.device for gradient in gradients for part in gradient if part is not None), "cpu")
    return torch.zeros((), dtype=torch.float64, device=device)
