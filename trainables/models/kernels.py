"""The kernels a loaded model computes with: the same functions to the rounding of float32, the same weights, sooner."""

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
_FEW = 32
"""Rows, such as of answers being generated, for which a product is over before oneDNN has begun."""


def with_fast_kernels(model: PreTrainedModel) -> PreTrainedModel:
    """The model itself, its modules changed; what is saved of it stays as it is."""
    fuse_activations(model)
    if onednn_is_faster():
        use_onednn(model)
    return model


def fuse_activations(model: PreTrainedModel) -> PreTrainedModel:
    """Put one kernel in place of each tanh approximation of GELU that transformers spells out in eight operations.

    It is the same function (Hendrycks & Gimpel, arXiv:1606.08415), a tenth of a small Phi's step.
    """
    from transformers.activations import FastGELUActivation, NewGELUActivation

    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, (NewGELUActivation, FastGELUActivation)):
                setattr(parent, name, torch.nn.GELU(approximate="tanh"))
    return model


@functools.cache
def onednn_is_faster() -> bool:
    """Whether this CPU multiplies matrices in float32 much faster with oneDNN than with MKL, which torch calls.

    So it is on AMD's from Zen 5 on (family 26), where MKL leaves half of the AVX-512 unused. By the CPU's name rather
    than by a measurement: a run that is resumed must compute what it began with.
    """
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    try:
        first, _, _ = CPU.read_text(encoding="utf-8", errors="replace").partition("\n\n")
    except OSError:
        return False
    known = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    is_zen_5 = known.get("vendor_id") == "AuthenticAMD" and int(known.get("cpu family", "0")) >= 26
    return is_zen_5 and onednn_works()


def onednn_works() -> bool:
    """Whether torch's build has the product and this CPU takes it."""
    try:
        return bool(torch.equal(onednn_product(torch.eye(2), torch.eye(2), None), torch.eye(2)))
    except (AttributeError, RuntimeError):
        return False


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x W^T + b`` of matrices; a transposed view will do of either."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def use_onednn(model: PreTrainedModel) -> PreTrainedModel:
    """Have the linear layers of the model multiply by oneDNN."""
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = OneDnnLinear
    return model


class OneDnnLinear(torch.nn.Linear):
    """A linear layer that computes float32 on a CPU with oneDNN, and anything else as its base class."""

    def forward(self, input: Tensor) -> Tensor:
        """``x W^T + b`` of inputs of shape (..., in_features)."""
        if (
            input.dtype is torch.float32
            and self.weight.dtype is torch.float32
            and input.device.type == "cpu"
            and input.numel() >= _FEW * self.in_features
            and not torch.is_autocast_enabled("cpu")
        ):
            product: Tensor = _Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return product
        return super().forward(input)


class _Product(torch.autograd.Function):
    """The product of a linear layer, and the two of its gradient."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x, (of_input, of_weight, _) = input.flatten(0, -2), ctx.needs_input_grad
        ctx.save_for_backward(x if of_weight else None, weight if of_input else None)
        product: Tensor = onednn_product(x, weight, bias).unflatten(0, input.shape[:-1])
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (x, weight), (of_input, of_weight, of_bias) = ctx.saved_tensors, ctx.needs_input_grad
        rows = gradient.flatten(0, -2)
        return (
            onednn_product(rows, weight.T, None).unflatten(0, gradient.shape[:-1]) if of_input else None,
            onednn_product(rows.T, x.T, None) if of_weight else None,
            rows.sum(dim=0) if of_bias else None,
        )
