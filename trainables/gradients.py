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
    shared = [(g_r, g_f) for g_r, g_f in pairs if g_r is not None and g_f is not None]
    shared_r = [g_r for g_r, _ in shared]
    shared_f = [g_f for _, g_f in shared]
    only_r = [g_r for g_r, g_f in pairs if g_r is not None and g_f is None]
    only_f = [g_f for g_r, g_f in pairs if g_f is not None and g_r is None]
    rr: list[Tensor] = []
    rf: list[Tensor] = []
    ff: list[Tensor] = []
    for chunk_r, chunk_f in zip(_float64_chunks(shared_r), _float64_chunks(shared_f), strict=True):
        rr.append(torch.dot(chunk_r, chunk_r))
        rf.append(torch.dot(chunk_r, chunk_f))
        ff.append(torch.dot(chunk_f, chunk_f))
    rr += [torch.dot(chunk, chunk) for chunk in _float64_chunks(only_r)]
    ff += [torch.dot(chunk, chunk) for chunk in _float64_chunks(only_f)]

    def total(products: list[Tensor]) -> Tensor:
        return torch.stack(products).sum() if products else _zero(retain, forget)

    sum_rr, sum_rf, sum_ff = torch.stack([total(rr), total(rf), total(ff)]).tolist()
    return Gramian(rr=sum_rr, rf=sum_rf, ff=sum_ff)


def norm(gradient: Gradient) -> float:
    """Return the Euclidean norm of a gradient, computed in float64."""
    tensors = [tensor for tensor in gradient if tensor is not None]
    return float(total_norm(tensors)) if tensors else 0.0


def total_norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of all elements of the tensors, as a float64 scalar on the tensors' device."""
    result: Tensor = torch.stack(torch._foreach_norm(list(tensors), 2, dtype=torch.float64)).norm()
    return result


def combine_(parameters: Sequence[Tensor], retain: Gradient, forget: Gradient, weights: Weights) -> None:
    """Set ``p.grad = w_r g_r + w_f g_f`` for every parameter. The input gradients are overwritten.

    A gradient with weight 0 is ignored, because ``0 * inf`` would give NaN.
    """
    active_r = [g_r if weights.retain != 0 else None for g_r in retain]
    active_f = [g_f if weights.forget != 0 else None for g_f in forget]
    pairs = list(zip(active_r, active_f, strict=True))
    only_r = [g_r for g_r, g_f in pairs if g_r is not None and g_f is None]
    shared = [(g_r, g_f) for g_r, g_f in pairs if g_r is not None and g_f is not None]
    _scale_([g_f for g_f in active_f if g_f is not None], weights.forget)
    _scale_(only_r, weights.retain)
    if shared:
        shared_r = [g_r for g_r, _ in shared]
        shared_f = [g_f for _, g_f in shared]
        torch._foreach_add_(shared_f, shared_r, alpha=weights.retain)  # g_f += w_r g_r
    for parameter, (g_r, g_f) in zip(parameters, pairs, strict=True):
        parameter.grad = g_r if g_f is None else g_f


def clip_(gradient: Gradient, max_norm: float | None, grad_norm: float) -> None:
    """Clip the norm of a gradient as torch does: ``g *= min(1, max_norm / (|g| + 1e-6))``.

    ``grad_norm`` is ``|g|``, the norm of the gradient. If ``max_norm`` is None, the gradient is not clipped.
    """
    if max_norm is None:
        return
    factor = max_norm / (grad_norm + 1e-6)
    if factor < 1.0:
        _scale_([tensor for tensor in gradient if tensor is not None], factor)


def _scale_(tensors: list[Tensor], factor: float) -> None:
    if tensors:
        torch._foreach_mul_(tensors, factor)


def _float64_chunks(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the elements of all tensors as float64 chunks. Chunk sizes depend only on the tensors' shapes."""
    chunk_size = _CHUNK if tensors and tensors[0].is_cuda else _CPU_CHUNK
    buffer: list[Tensor] = []
    buffer_size = 0
    # Small tensors share a chunk. Large tensors are split: an embedding with 100M elements needs 0.8 GB in float64.
    for tensor in tensors:
        flat = tensor.reshape(-1)
        if buffer and buffer_size + flat.numel() > chunk_size:
            yield torch.cat(buffer).double()
            buffer = []
            buffer_size = 0
        if flat.numel() > chunk_size:
            for start in range(0, flat.numel(), chunk_size):
                yield flat[start : start + chunk_size].double()
        else:
            buffer.append(flat)
            buffer_size += flat.numel()
    if buffer:
        yield torch.cat(buffer).double()


def _zero(*gradients: Gradient) -> Tensor:
    devices = [tensor.device for gradient in gradients for tensor in gradient if tensor is not None]
    return torch.zeros((), dtype=torch.float64, device=devices[0] if devices else "cpu")
