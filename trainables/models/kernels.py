"""Faster kernels for loaded models. Results are equal up to float32 rounding."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CPU = Path("/proc/cpuinfo")
_MIN_ROWS = 32
"""The minimum number of input rows for oneDNN. With fewer rows, the overhead exceeds the gain."""


def with_fast_kernels(model: PreTrainedModel) -> PreTrainedModel:
    """Replace activations and linear layers by faster modules in place, and return the model."""
    fuse_activations(model)
    if onednn_is_faster():
        use_onednn(model)
    return model


def fuse_activations(model: PreTrainedModel) -> PreTrainedModel:
    """Replace each tanh approximation of GELU (arXiv:1606.08415) by torch's fused kernel, and return the model.

    The kernel shortens a training step of a small Phi by 10%.
    """
    from transformers.activations import FastGELUActivation, NewGELUActivation

    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, (NewGELUActivation, FastGELUActivation)):
                setattr(parent, name, torch.nn.GELU(approximate="tanh"))
    return model


@functools.cache
def onednn_is_faster() -> bool:
    """Return whether oneDNN multiplies float32 matrices faster on this CPU than MKL.

    The decision depends on the CPU's family, not on a measurement, because a resumed run must use the same kernels.
    """
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    try:
        block, _, _ = CPU.read_text(encoding="utf-8", errors="replace").partition("\n\n")
    except OSError:
        return False
    fields: dict[str, str] = {}
    for line in block.splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    # On AMD CPUs from Zen 5 (family 26) on, MKL uses only half of the AVX-512 capacity.
    is_zen_5 = fields.get("vendor_id") == "AuthenticAMD" and int(fields.get("cpu family", "0")) >= 26
    return is_zen_5 and onednn_works()


def onednn_works() -> bool:
    """Return whether torch and the CPU support :func:`onednn_product`."""
    try:
        return bool(torch.equal(onednn_product(torch.eye(2), torch.eye(2), None), torch.eye(2)))
    except (AttributeError, RuntimeError):
        return False


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x W^T + b`` for matrices. ``x`` and ``weight`` may be transposed views."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def use_onednn(model: PreTrainedModel) -> PreTrainedModel:
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = OneDnnLinear
    return model


class OneDnnLinear(torch.nn.Linear):
    """A linear layer that uses oneDNN for float32 inputs on a CPU.

    Second derivatives and ``torch.func`` are not supported.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``x W^T + b`` for inputs of shape (..., in_features)."""
        is_on_cpu = input.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        is_float32 = input.dtype is torch.float32 and self.weight.dtype is torch.float32
        has_valid_shape = input.dim() > 1 and input.shape[-1] == self.in_features
        has_enough_rows = self.in_features > 0 and input.numel() >= _MIN_ROWS * self.in_features
        if is_on_cpu and is_float32 and has_valid_shape and has_enough_rows:
            # Reshape outside _Product: autograd forbids in-place operations on a view that a custom function returns.
            rows = _Product.apply(input.flatten(0, -2), self.weight, self.bias)  # type: ignore[no-untyped-call]
            product: Tensor = rows.unflatten(0, input.shape[:-1])
            return product
        return super().forward(input)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        needs_x_grad, needs_weight_grad, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if needs_weight_grad else None, weight if needs_x_grad else None)
        return onednn_product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            onednn_product(gradient, weight.T, None) if needs_x else None,
            onednn_product(gradient.T, x.T, None) if needs_weight else None,
            gradient.sum(dim=0) if needs_bias else None,
        )
