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
"""With fewer rows, as where a few answers are generated, a product is over before oneDNN has begun."""


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
    """A linear layer that computes float32 on a CPU with oneDNN, and anything else as its base class.

    Its gradient has no gradient of its own, and ``torch.func`` does not take it.
    """

    def forward(self, input: Tensor) -> Tensor:
        """``x W^T + b`` of inputs of shape (..., in_features)."""
        if (
            input.dtype is torch.float32
            and self.weight.dtype is torch.float32
            and input.device.type == "cpu"
            and input.dim() > 1
            and input.shape[-1] == self.in_features
            and input.numel() >= _FEW * self.in_features > 0
            and not torch.is_autocast_enabled("cpu")
        ):
            # The views are made outside of the product: of one that is a view autograd allows no operation in place.
            rows = _Product.apply(input.flatten(0, -2), self.weight, self.bias)  # type: ignore[no-untyped-call]
            product: Tensor = rows.unflatten(0, input.shape[:-1])
            return product
        return super().forward(input)


class _Product(torch.autograd.Function):
    """The product of a linear layer, of matrices, and the two of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        of_x, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if of_weight else None, weight if of_x else None)
        return onednn_product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (x, weight), (of_x, of_weight, of_bias) = ctx.saved_tensors, ctx.needs_input_grad
        return (
            onednn_product(gradient, weight.T, None) if of_x else None,
            onednn_product(gradient.T, x.T, None) if of_weight else None,
            gradient.sum(dim=0) if of_bias else None,
        )
